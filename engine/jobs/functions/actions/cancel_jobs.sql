-- queued -> canceled immediately; running jobs are asked to stop. Returns what became of each job. Those of a tenant that moves stay.
-- Guards stand in a case, opaque to the planner, so that the key is the only way in. What is in history has finished, and is looked for in few tables.
-- Locks: job rows in ascending id, then the rows of their parents. Called by change_jobs, runs_ended and delete_runs_of_jobs.
create or replace function cancel_jobs(p_ids uuid[], p_tenant uuid, p_actor_type text, p_actor_id text, p_meta jsonb)
returns table (id uuid, verdict text) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  filed constant uuid[] := array(select u.id from unnest(p_ids) u(id) where not exists (select from only jobs j where j.id = u.id));
begin
  p_ids := array(select id from only jobs where id = any (p_ids) and tenant_id <> all (moving_tenants()));
  -- Locked first, in order: the statements after this one see the rows as they will stay.
  perform from only jobs where id = any (p_ids) and (p_tenant is null or tenant_id = p_tenant) order by id for update;
  return query
  with ended as (
    update only jobs
    set status = 'canceled', finished_at = clock_timestamp(), updated_at = clock_timestamp(), next_retry_at = null,
        -- One that a limit holds has been due for long.
        due_at = case when held_by is null then coalesce(next_retry_at, due_at) else due_at end,
        cancel_requested_at = clock_timestamp(), cancel_requested_by = p_actor_id
    where id = any (p_ids) and case when status = 'queued' then p_tenant is null or tenant_id = p_tenant else false end
    returning id, tenant_id, 'canceled'::text as verdict),
  asked as (
    update only jobs
    set cancel_requested_at = clock_timestamp(), cancel_requested_by = p_actor_id, updated_at = clock_timestamp()
    where id = any (p_ids)
      and case when status = 'running' and cancel_requested_at is null then p_tenant is null or tenant_id = p_tenant else false end
    returning id, tenant_id, 'requested'::text as verdict),
  changed as (select * from ended union all select * from asked),
  aud as (
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    select c.tenant_id, p_actor_type::actor_type, p_actor_id, e.action, 'job', c.id, p_meta,
      audit_body(c.tenant_id, p_actor_type, p_actor_id, 'info', e.action, 'job', c.id::text, '', p_meta)
    from changed c
    cross join lateral (select case c.verdict when 'canceled' then 'JOB_CANCELED' else 'JOB_CANCEL_REQUESTED' end as action) e)
  select c.id, c.verdict from changed c
  union all
  select j.id, case when j.status = 'running' then 'requested' else 'ended' end
  from only jobs j
  where j.id = any (p_ids) and (p_tenant is null or j.tenant_id = p_tenant)
    and not exists (select from changed c where c.id = j.id)
  union all
  select h.id, 'ended' from history_rows(filed) h where (p_tenant is null or h.tenant_id = p_tenant) and h.tenant_id <> all (moving_tenants());
  perform wake_parents(array(
    select distinct j.parent_run_id from only jobs j
    where j.id = any (p_ids) and case when j.status = 'canceled' and j.parent_run_id is not null then true else false end));
  perform runs_ended(array(
    select j.id from only jobs j
    where j.id = any (p_ids) and case when j.status = 'canceled' and j.job_type = 'ENGINE_RUN' then true else false end));
  perform pg_notify(current_schema() || '_cancel', '');
end $$;
