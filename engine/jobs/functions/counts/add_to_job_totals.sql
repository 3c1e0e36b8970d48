-- Adds the events of these minutes to the totals of job types. Called by meter_usage, which holds the lock.
create or replace function add_to_job_totals(p_minutes job_minute[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  max_types constant int := 200 - (select count(*) from job_totals where job_type <> '(other)');
  zeros constant bigint[] := array_fill(0::bigint, array[cardinality(duration_bounds()) + 1]);
begin
  with minutes as (
    select m.* from unnest(p_minutes) m
    where m.enqueued + m.succeeded + m.failed + m.dead_lettered + m.retried + m.canceled > 0),
  labels as (
    select n.job_type, case when t.job_type is null and n.nth > max_types then '(other)' else n.job_type end as label
    from (
      select x.job_type, row_number() over (order by exists (select from job_totals t where t.job_type = x.job_type), x.job_type) as nth
      from (select distinct job_type from minutes) x) n
    left join job_totals t on t.job_type = n.job_type)
  insert into job_totals as t (job_type, enqueued, succeeded, failed, dead_lettered, retried, canceled, waits, wait_seconds, runs,
    run_seconds)
  select l.label, sum(m.enqueued), sum(m.succeeded), sum(m.failed), sum(m.dead_lettered), sum(m.retried), sum(m.canceled),
    coalesce(sum_counts(array_agg(m.waits) filter (where m.waits <> '{}')), zeros), sum(m.wait_sum),
    coalesce(sum_counts(array_agg(m.runs) filter (where m.runs <> '{}')), zeros), sum(m.run_sum)
  from minutes m
  join labels l on l.job_type = m.job_type
  group by l.label
  on conflict (job_type) do update
  set enqueued = t.enqueued + excluded.enqueued, succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed,
      dead_lettered = t.dead_lettered + excluded.dead_lettered, retried = t.retried + excluded.retried,
      canceled = t.canceled + excluded.canceled, waits = add_counts(t.waits, excluded.waits),
      wait_seconds = t.wait_seconds + excluded.wait_seconds, runs = add_counts(t.runs, excluded.runs),
      run_seconds = t.run_seconds + excluded.run_seconds;
end $$;
