-- The log of an attempt that left without an outcome of its own, such as a run that waits. One that is lost and still running by the
-- job's row is recorded as lost by the reaper, whose row this one would be in the way of. Called by engine/jobs/finish.py.
-- Looks across tenants: the worker that calls it has run the attempt. SQL, because its times are on the database's clock.
insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at, finished_at, duration_ms, outcome, log_tail)
select :job_id, :attempt_no, :worker_id, 'canceled', clock_timestamp() - :seconds::float8 * interval '1 second', clock_timestamp(),
  least(2147483647, :seconds::float8 * 1000)::int, 'snoozed', :log_tail
where not exists (
  select from only atlas.jobs j where j.id = :job_id and j.status = 'running' and j.attempt_count = :attempt_no)
on conflict (job_id, attempt_no) do nothing;
