-- Adds these events and attempts to the minutes, hours and days in which they happened: to those of their tenants, and to those of all
-- tenants together. An event that is committed late is added to its own minute then. Called by meter_usage, which holds the lock.
create or replace function add_to_job_series(p_events job_event[], p_attempts ended_attempt[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  -- First by the minute, so that only few rows are added up for each step and tenant.
  with minutes as materialized (
    select e.tenant_id, e.job_type, date_trunc('minute', e.happened_at) as minute,
      count(*) filter (where e.kind = 'enqueued') as enqueued, count(*) filter (where e.kind = 'succeeded') as succeeded,
      count(*) filter (where e.kind = 'failed') as failed, count(*) filter (where e.kind = 'dead_lettered') as dead_lettered,
      count(*) filter (where e.kind = 'retried') as retried, count(*) filter (where e.kind = 'canceled') as canceled,
      count(e.status) as attempts, count(*) filter (where e.status = 'timeout') as timed_out,
      count(*) filter (where e.status = 'lost') as lost, coalesce(sum(e.run_seconds), 0) as run_seconds,
      coalesce(sum(e.cost_cents), 0) as cost_cents, count(e.wait) as waited, count(e.run) as ran,
      histogram(array_agg(e.wait)) as waits, histogram(array_agg(e.run)) as runs
    from (
      select v.tenant_id, v.job_type, v.happened_at, v.kind, v.wait, v.run, null as status, null::float8 as run_seconds,
        null::bigint as cost_cents
      from unnest(p_events) v
      union all
      select a.tenant_id, a.job_type, a.finished_at, null, null, null, a.status, a.run_seconds, a.cost_cents from unnest(p_attempts) a) e
    group by 1, 2, 3)
  insert into job_series as s (tenant_id, step, begins_at, job_type, enqueued, succeeded, failed, dead_lettered, retried, canceled,
    attempts, timed_out, lost, run_seconds, cost_cents, waits, runs)
  select w.tenant_id, p.step, date_trunc(p.step::text, m.minute, 'UTC'), m.job_type, sum(m.enqueued), sum(m.succeeded), sum(m.failed),
    sum(m.dead_lettered), sum(m.retried), sum(m.canceled), sum(m.attempts), sum(m.timed_out), sum(m.lost), sum(m.run_seconds),
    sum(m.cost_cents), case when sum(m.waited) > 0 then sum_counts(array_agg(m.waits)) else '{}' end,
    case when sum(m.ran) > 0 then sum_counts(array_agg(m.runs)) else '{}' end
  from minutes m
  cross join unnest(enum_range(null::series_step)) p(step)
  -- A tenant that was removed has no series any more.
  cross join lateral (
    select '00000000-0000-0000-0000-000000000000'::uuid as tenant_id
    union all
    select n.id from tenants n where n.id = m.tenant_id) w
  group by 1, 2, 3, 4
  on conflict (tenant_id, step, begins_at, job_type) do update
  set enqueued = s.enqueued + excluded.enqueued, succeeded = s.succeeded + excluded.succeeded, failed = s.failed + excluded.failed,
      dead_lettered = s.dead_lettered + excluded.dead_lettered, retried = s.retried + excluded.retried,
      canceled = s.canceled + excluded.canceled, attempts = s.attempts + excluded.attempts, timed_out = s.timed_out + excluded.timed_out,
      lost = s.lost + excluded.lost, run_seconds = s.run_seconds + excluded.run_seconds, cost_cents = s.cost_cents + excluded.cost_cents,
      waits = add_counts(s.waits, excluded.waits), runs = add_counts(s.runs, excluded.runs);
end $$;
