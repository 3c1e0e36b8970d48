-- running -> whatever its outcome says, for many jobs; then queued -> running for the free slots. Both or neither.
-- Looks across tenants: a worker serves them all. SQL, because a function does it.
select kind, id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds, definition_id,
  parent_run_id, correlation_id, alone, start_within, finish_within
from atlas.turn(
  :worker, :slots, :prefetch, :types, :lease,
  :ids, :attempts, :statuses, :outputs, :errors, :delays, :used, :costs, :actions, :levels, :messages, :metas, :bodies, :details,
  :privates, :alone, :fair, :after, :tenants, :seconds, :jobs, :resume::text::jsonb);
