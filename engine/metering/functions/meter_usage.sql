-- Meters what happened to jobs: usage by the hour, counts of jobs, causes of dead letters, totals of job types, series by the minute, hour and day.
-- Returns whether there may be more. Null: another meter is at work.
--
-- What happens to a job has an audit row, written in the transaction that did it. The meter reads each row exactly once; its
-- position moves in the transaction that adds to the tables.
-- Locks: metering. Called by engine/metering/usage.py.
create or replace function meter_usage(p_limit int) returns boolean language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  batch audit_log[];
  minutes job_minute[];
  more boolean;
begin
  if not pg_try_advisory_xact_lock(lock_class('metering'), 0) then
    return null;
  end if;
  select n.batch, n.more into batch, more from next_audit_rows('usage_meter', p_limit, null) n;
  if cardinality(batch) > 0 then
    perform add_to_job_counts(batch);
    perform add_to_dead_letters(batch);
    minutes := job_minutes(batch);
    perform add_to_usage(minutes);
    perform add_to_job_totals(minutes);
    perform add_to_job_series(minutes);
  end if;
  return more;
end $$;
