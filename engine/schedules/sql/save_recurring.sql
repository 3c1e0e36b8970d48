-- nothing, or a schedule -> this schedule. Its next run is its start; if that is in the past, it is due immediately.
-- A function that is to run once, and did at this start, stays removed: every process that registers it does so at each start.
-- Returns whether it is another schedule than before. The caller holds the schedule that is there. SQL, because it inserts or
-- updates under conditions, and compares with what was there.
with before as (
  select start_at, repeat_seconds, timeout_seconds from atlas.recurring_jobs where tenant_id = :tenant_id and id = :id
)
insert into atlas.recurring_jobs as r (tenant_id, id, start_at, repeat_seconds, timeout_seconds, next_run_at)
select :tenant_id, :id, :start_at::timestamptz, :repeat_seconds::float8, :timeout_seconds::float8, :start_at
where exists (select from before)
  or :repeat_seconds > 0
  or not atlas.recurring_is_over(:tenant_id, :id, :start_at)
on conflict (tenant_id, id) do update
set start_at        = excluded.start_at,
    repeat_seconds  = excluded.repeat_seconds,
    timeout_seconds = excluded.timeout_seconds,
    next_run_at     = case when r.start_at = excluded.start_at and r.repeat_seconds = excluded.repeat_seconds then r.next_run_at
                           else excluded.next_run_at end,
    updated_at      = clock_timestamp()
returning not exists (
  select from before b
  where (b.start_at, b.repeat_seconds) = (r.start_at, r.repeat_seconds) and b.timeout_seconds is not distinct from r.timeout_seconds);
