-- running -> waiting for the next run, or done if there is none; fenced by the process and the number of the run.
-- The next run is the first multiple of the interval after now: missed intervals are skipped.
update atlas.recurring_jobs
set locked_by        = null,
    lease_expires_at = null,
    last_finished_at = clock_timestamp(),
    last_outcome     = :outcome,
    last_error       = :error,
    next_run_at      = case
      when :outcome::text = 'stopped' then next_run_at
      when repeat_seconds = 0 then null
      when start_at > clock_timestamp() then start_at
      else start_at + make_interval(secs => repeat_seconds
        * (floor(extract(epoch from clock_timestamp() - start_at)::float8 / repeat_seconds) + 1)) end,
    updated_at       = clock_timestamp()
where tenant_id = :tenant_id
  and id = :id
  and locked_by = :by
  and run_count = :number
returning id;
