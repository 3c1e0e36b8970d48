-- Adds these minutes to the minutes, hours and days of their tenants, and to those of all tenants together. An event that is committed
-- late is added to its own minute then. The statement is built here, because each bucket of `duration_bounds` is a sum of its own:
-- functions on the lists took five times as long. Called by meter_usage, which holds the lock.
create or replace function add_to_job_series(p_minutes job_minute[]) returns void language plpgsql volatile
set search_path from current set jit = off as $$
declare
  buckets constant int := cardinality(duration_bounds()) + 1;
  sums constant text := (select string_agg(format('sum(m.%%1$s[%s])', n), ', ') from generate_series(1, buckets) n);
  added constant text := (
    select string_agg(format('coalesce(s.%%1$s[%s], 0) + coalesce(excluded.%%1$s[%s], 0)', n, n), ', ') from generate_series(1, buckets) n);
begin
  execute format($query$
    insert into job_series as s (tenant_id, step, begins_at, job_type, enqueued, succeeded, failed, dead_lettered, retried, canceled,
      attempts, timed_out, lost, run_seconds, cost_cents, waits, runs)
    select w.tenant_id, p.step, date_trunc(p.step::text, m.minute, 'UTC'), m.job_type, sum(m.enqueued), sum(m.succeeded), sum(m.failed),
      sum(m.dead_lettered), sum(m.retried), sum(m.canceled), sum(m.attempts), sum(m.attempts_timed_out), sum(m.attempts_lost),
      sum(m.run_seconds), sum(m.cost_cents), case when bool_or(m.waits <> '{}') then array[%1$s] else '{}' end,
      case when bool_or(m.runs <> '{}') then array[%2$s] else '{}' end
    from unnest($1) m
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
        canceled = s.canceled + excluded.canceled, attempts = s.attempts + excluded.attempts,
        timed_out = s.timed_out + excluded.timed_out, lost = s.lost + excluded.lost, run_seconds = s.run_seconds + excluded.run_seconds,
        cost_cents = s.cost_cents + excluded.cost_cents,
        waits = case when excluded.waits = '{}' then s.waits when s.waits = '{}' then excluded.waits else array[%3$s] end,
        runs = case when excluded.runs = '{}' then s.runs when s.runs = '{}' then excluded.runs else array[%4$s] end$query$,
    format(sums, 'waits'), format(sums, 'runs'), format(added, 'waits'), format(added, 'runs'))
  using p_minutes;
end $$;
