-- What happened to the jobs of a tenant and type in a minute, as the meter adds it up. Events: what they did, how long jobs that were due
-- waited for their first attempt (a count for each bucket of `duration_bounds`, and their sum), and how long attempts ran that ended.
-- Attempts: how those ended that did so in the minute, how long they ran and were due before, and what their jobs have cost since.
create type job_minute as (
  tenant_id uuid, job_type text, minute timestamptz(6),
  enqueued bigint, succeeded bigint, failed bigint, dead_lettered bigint, retried bigint, canceled bigint,
  waits bigint[], wait_sum float8, runs bigint[], run_sum float8,
  attempts bigint, attempts_succeeded bigint, attempts_failed bigint, attempts_timed_out bigint, attempts_canceled bigint,
  attempts_lost bigint, run_seconds float8, queue_seconds float8, cost_cents bigint);
