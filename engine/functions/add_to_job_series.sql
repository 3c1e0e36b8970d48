-- Adds these events to the minutes and hours in which they happened: to those of their tenants, and to those of all tenants together.
-- An event that is committed late is added to its own minute then. Called by meter_usage, which holds the lock.
create or replace function add_to_job_series(p_events job_event[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  insert into job_series as s (tenant_id, step, begins_at, job_type, enqueued, succeeded, failed, dead_lettered, retried, canceled,
    waits, runs)
  select w.tenant_id, p.step, date_trunc(p.step::text, e.happened_at, 'UTC'), e.job_type,
    count(*) filter (where e.kind = 'enqueued'), count(*) filter (where e.kind = 'succeeded'),
    count(*) filter (where e.kind = 'failed'), count(*) filter (where e.kind = 'dead_lettered'),
    count(*) filter (where e.kind = 'retried'), count(*) filter (where e.kind = 'canceled'),
    case when count(e.wait) > 0 then histogram(array_agg(e.wait)) else '{}' end,
    case when count(e.run) > 0 then histogram(array_agg(e.run)) else '{}' end
  from unnest(p_events) e
  cross join unnest(enum_range(null::series_step)) p(step)
  -- A tenant that was removed has no series any more.
  cross join lateral (
    select '00000000-0000-0000-0000-000000000000'::uuid as tenant_id
    union all
    select n.id from tenants n where n.id = e.tenant_id) w
  group by 1, 2, 3, 4
  on conflict (tenant_id, step, begins_at, job_type) do update
  set enqueued = s.enqueued + excluded.enqueued, succeeded = s.succeeded + excluded.succeeded, failed = s.failed + excluded.failed,
      dead_lettered = s.dead_lettered + excluded.dead_lettered, retried = s.retried + excluded.retried,
      canceled = s.canceled + excluded.canceled, waits = add_counts(s.waits, excluded.waits), runs = add_counts(s.runs, excluded.runs);
end $$;
