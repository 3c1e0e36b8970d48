-- nothing, or a schedule -> this schedule. Its next run is its start; if that is in the past, it is due at once.
-- Returns whether it is another schedule than before.
with before as (
  select start_at, repeat_seconds, timeout_seconds from atlas.recurring_jobs where tenant_id = :tenant_id and id = :id
)
insert into atlas.recurring_jobs as r (tenant_id, id, start_at, repeat_seconds, timeout_seconds, next_run_at)
values (:tenant_id, :id, :start_at, :repeat_seconds, :timeout_seconds, :start_at)
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
