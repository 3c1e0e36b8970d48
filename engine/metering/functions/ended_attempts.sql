-- The attempts whose ends these audit rows record. What their jobs cost is known from then on: each cent is counted once.
-- Values of a handler's own that bear the name of the attempt and are no attempt number are passed over.
-- Called by meter_usage, which holds the lock.
create or replace function ended_attempts(p_rows audit_log[]) returns ended_attempt[] language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  found_attempts ended_attempt[];
begin
  with ends as materialized (
    select distinct on (r.entity_id, r.meta->>'attempt') r.entity_id::uuid as job_id, (r.meta->>'attempt')::int as attempt_no,
      r.tenant_id, r.action, r.created_at
    from unnest(p_rows) r
    where r.entity_type = 'job' and jsonb_typeof(r.meta->'attempt') = 'number' and r.meta->>'attempt' ~ '^[0-9]{1,9}$'
    order by r.entity_id, r.meta->>'attempt', r.id desc),
  -- what the rows of the attempt and its job say; of a job that is deleted already, the audit log itself
  attempts as materialized (
    select e.job_id, e.attempt_no, coalesce(j.tenant_id, e.tenant_id) as tenant_id,
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
    left join only job_attempts a on a.job_id = e.job_id and a.attempt_no = e.attempt_no
    left join only jobs j on j.id = e.job_id and (a.job_id is not null or j.attempt_count = e.attempt_no)
    left join only job_attempts b on b.job_id = e.job_id and b.attempt_no = e.attempt_no - 1
    left join lateral (
      select m.meta->>'job_type' as job_type from audit_log m
      where m.entity_id = e.job_id::text and m.action = 'JOB_CREATED' limit 1) made on j.id is null),
  -- a job's row only has the sum of its attempts
  costs as (
    select j.id, j.cost_cents, j.cost_cents - coalesce(c.cents, 0) as cents, l.attempt_no
    from (select distinct on (t.job_id) t.job_id, t.attempt_no from attempts t order by t.job_id, t.finished_at desc) l
    join only jobs j on j.id = l.job_id
    left join only usage_costs c on c.job_id = j.id
    where j.cost_cents <> coalesce(c.cents, 0)),
  known as (
    insert into usage_costs (job_id, cents) select id, cost_cents from costs
    on conflict (job_id) do update set cents = excluded.cents)
  select array_agg((t.tenant_id, t.job_type, t.status, t.finished_at, t.run_seconds, greatest(0, t.queue_seconds),
    coalesce(c.cents, 0))::ended_attempt)
  into found_attempts
  from attempts t
  left join costs c on c.id = t.job_id and c.attempt_no = t.attempt_no;
  return coalesce(found_attempts, '{}');
end $$;
