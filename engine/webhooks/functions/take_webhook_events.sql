-- What the next rows of the audit log mean to the webhooks of their tenants: one delivery for each row and each webhook that wants
-- it, and whether there may be more. Nulls: another reader is at work, or there is no webhook.
--
-- The rows are read once, and the position moves in the transaction that enqueues the deliveries: none is lost, none made twice.
-- While there is no webhook, rows are passed over up to the snapshot that shows none. One that is committed later sees what is
-- committed after it. Deliveries are jobs, and are not delivered themselves.
-- Locks: webhooks. Called by engine/webhooks/deliver.py.
create or replace function take_webhook_events(p_limit int, out deliveries jsonb, out more boolean) language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  skip_to pg_snapshot;
  batch audit_log[];
  ids uuid[];
begin
  if not pg_try_advisory_xact_lock(lock_class('webhooks'), 0) then
    return;
  end if;
  select case when not exists (select from webhooks w where w.is_enabled) then pg_current_snapshot() end into skip_to;
  -- Moved now and then, so that little is read when the first webhook is added.
  if skip_to is not null and exists (
      select from system_state s where s.key = 'webhook_reader' and s.updated_at > clock_timestamp() - interval '10 seconds') then
    return;
  end if;
  select n.batch, n.more into batch, more from next_audit_rows('webhook_reader', p_limit, skip_to) n;
  ids := array(
    select distinct r.entity_id::uuid from unnest(batch) r
    where r.entity_type = 'job' and r.tenant_id = any (array(select w.tenant_id from webhooks w where w.is_enabled)));
  with enabled as materialized (
    select w.id, w.tenant_id, w.events, w.active_since
    from webhooks w
    join tenants t on t.id = w.tenant_id
    -- nothing can be enqueued for a tenant that is being removed
    where w.is_enabled and t.removing_at is null and t.moving_at is null),
  -- A reader that lags by hours meets jobs that are in history by now: they are looked for in the few tables that may hold them.
  jobs_of as materialized (
    select j.id, j.job_type, j.correlation_id, case when j.job_type = 'ENGINE_RUN' then j.input->>'workflow' end as workflow,
      j.job_type = 'HTTP_CALL' and j.input ? 'webhook' as is_delivery
    from (
      select h.* from only jobs h where h.id = any (ids)
      union all
      select h.* from history_rows(array(select u.id from unnest(ids) u(id) where not exists (select from only jobs a where a.id = u.id))) h) j),
  facts as (
    select r.id, r.tenant_id, r.created_at, r.entity_type, r.entity_id, r.action, r.level, r.message, r.meta, r.actor_id,
      j.id as job_id, coalesce(j.job_type, made.job_type) as job_type, j.correlation_id,
      case when j.job_type = 'ENGINE_RUN' then j.workflow else r.meta->>'workflow' end as workflow
    from unnest(batch) r
    left join jobs_of j on j.id = case when r.entity_type = 'job' then r.entity_id::uuid end
    -- of a job that is deleted already, the audit log itself tells the type
    left join lateral (
      select m.meta->>'job_type' as job_type from audit_log m
      where m.entity_id = r.entity_id and m.action = 'JOB_CREATED' limit 1) made on r.entity_type = 'job' and j.id is null
    where r.entity_type in ('job', 'intent', 'approval')
      and r.tenant_id = any (array(select w.tenant_id from enabled w))
      and not coalesce(case when j.id is null then made.job_type = 'HTTP_CALL' else j.is_delivery end,
        false)),
  events as (
    select f.*, webhook_event(f.entity_type, f.action, f.level, f.meta, f.job_type) as name from facts f)
  select jsonb_agg(jsonb_build_object('webhook_id', w.id, 'tenant_id', w.tenant_id, 'body', jsonb_build_object(
      'type', e.name,
      'timestamp', to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'data', jsonb_strip_nulls(d.about || jsonb_build_object('log_id', e.id)))) order by e.id, w.id)
  into deliveries
  from events e
  join enabled w on w.tenant_id = e.tenant_id and w.active_since <= e.created_at
    and w.events && array[e.name, split_part(e.name, '.', 1) || '.*', '*']
  cross join lateral (
    select case
      when e.entity_type = 'approval' then jsonb_build_object('approval_id', e.entity_id,
        'run_id', coalesce(e.meta->>'run_id', e.meta->>'intent_id'), 'step', e.meta->>'step', 'title', nullif(e.message, ''),
        'decision', e.meta->>'decision', 'decided_by', case when e.name = 'approval.decided' then e.actor_id end,
        'expires_at', e.meta->>'expires_at')
      when e.name like 'run.%' then jsonb_build_object('run_id', e.entity_id, 'workflow', e.workflow,
        'correlation_id', e.correlation_id, 'attempt', e.meta->'attempt', 'message', nullif(e.message, ''))
      else jsonb_build_object('job_id', e.entity_id, 'job_type', e.job_type, 'correlation_id', e.correlation_id,
        'attempt', e.meta->'attempt', 'message', nullif(e.message, '')) end as about) d
  where e.name is not null;
end $$;
