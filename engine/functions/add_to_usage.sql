-- Adds to usage by the hour the attempts whose ends these audit rows record. Values of a handler's own that bear the name of the
-- attempt and are no attempt number are passed over. Called by meter_usage, which holds the lock.
create or replace function add_to_usage(p_rows audit_log[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  with ends as materialized (
    select distinct on (r.entity_id, r.meta->>'attempt') r.entity_id::uuid as job_id, (r.meta->>'attempt')::int as attempt_no,
      r.tenant_id, r.action, r.created_at
    from unnest(p_rows) r
    where r.entity_type = 'job' and jsonb_typeof(r.meta->'attempt') = 'number' and r.meta->>'attempt' ~ '^[0-9]{1,9}$'
    order by r.entity_id, r.meta->>'attempt', r.id desc),
  -- what the rows of the attempt and its job say; of a job that is deleted already, the audit log itself
  attempts as materialized (
    select e.job_id, coalesce(j.tenant_id, e.tenant_id) as tenant_id,
      coalesce(j.job_type, made.job_type, 'deleted') as job_type,
      coalesce(a.status::text, case when j.id is not null then 'succeeded'
        when e.action in ('JOB_FAILED', 'JOB_EXHAUSTED_RETRIES', 'JOB_RETRY_SCHEDULED', 'WORKFLOW_FAILED', 'WORKFLOW_NOT_FOUND') then 'failed'
        when e.action in ('LEASE_EXPIRED', 'JOB_POISONED') then 'lost'
        when e.action = 'JOB_CANCELED' then 'canceled' else 'succeeded' end) as status,
      coalesce(a.finished_at, j.finished_at, e.created_at) as finished_at,
      coalesce(extract(epoch from coalesce(a.finished_at, j.finished_at) - coalesce(a.started_at, j.started_at)), 0) as run_seconds,
      -- Since it was due: after its wait, but not before it was made or the attempt before had ended.
      coalesce(extract(epoch from coalesce(a.started_at, j.started_at)
        - greatest(case when e.attempt_no = 1 then j.created_at else b.finished_at end,
                   case when a.job_id is null then j.due_at else a.due_at end)), 0) as queue_seconds
    from ends e
    left join job_attempts a on a.job_id = e.job_id and a.attempt_no = e.attempt_no
    left join jobs j on j.id = e.job_id and (a.job_id is not null or j.attempt_count = e.attempt_no)
    left join job_attempts b on b.job_id = e.job_id and b.attempt_no = e.attempt_no - 1
    left join lateral (
      select m.meta->>'job_type' as job_type from audit_log m
      where m.entity_id = e.job_id::text and m.action = 'JOB_CREATED' limit 1) made on j.id is null),
  costs as (
    select j.id, j.cost_cents, j.cost_cents - coalesce(c.cents, 0) as cents, l.tenant_id, l.job_type, l.hour
    from (
      select distinct on (t.job_id) t.job_id, t.tenant_id, t.job_type, date_trunc('hour', t.finished_at, 'UTC') as hour
      from attempts t order by t.job_id, t.finished_at desc) l
    join jobs j on j.id = l.job_id
    left join usage_costs c on c.job_id = j.id
    where j.cost_cents <> coalesce(c.cents, 0)),
  known as (
    insert into usage_costs (job_id, cents) select id, cost_cents from costs
    on conflict (job_id) do update set cents = excluded.cents),
  hours as (
    select t.tenant_id, t.job_type, date_trunc('hour', t.finished_at, 'UTC') as hour, count(*) as runs,
      count(*) filter (where t.status = 'succeeded') as succeeded, count(*) filter (where t.status = 'failed') as failed,
      count(*) filter (where t.status = 'timeout') as timed_out, count(*) filter (where t.status = 'canceled') as canceled,
      count(*) filter (where t.status = 'lost') as lost, sum(t.run_seconds) as run_seconds, sum(greatest(0, t.queue_seconds)) as queue_seconds
    from attempts t
    -- A tenant that was removed has no usage any more.
    where t.tenant_id in (select n.id from tenants n)
    group by 1, 2, 3)
  insert into usage_hourly as u (tenant_id, job_type, hour, runs, succeeded, failed, timed_out, canceled, lost, run_seconds,
    queue_seconds, cost_cents)
  select h.tenant_id, h.job_type, h.hour, h.runs, h.succeeded, h.failed, h.timed_out, h.canceled, h.lost, h.run_seconds,
    h.queue_seconds,
    coalesce((select sum(c.cents) from costs c where c.tenant_id = h.tenant_id and c.job_type = h.job_type and c.hour = h.hour), 0)
  from hours h
  on conflict (tenant_id, job_type, hour) do update
  set runs = u.runs + excluded.runs, succeeded = u.succeeded + excluded.succeeded, failed = u.failed + excluded.failed,
      timed_out = u.timed_out + excluded.timed_out, canceled = u.canceled + excluded.canceled, lost = u.lost + excluded.lost,
      run_seconds = u.run_seconds + excluded.run_seconds, queue_seconds = u.queue_seconds + excluded.queue_seconds,
      cost_cents = u.cost_cents + excluded.cost_cents, updated_at = clock_timestamp();
end $$;
