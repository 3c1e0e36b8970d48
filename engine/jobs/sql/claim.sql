-- queued -> running for the free slots, where there is nothing to finish. Looks across tenants: a worker serves them all.
-- Does not wait for the disk: a claim that a crash of the server undoes leaves the job queued, and its late outcome is refused.
select kind, id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds, definition_id,
  parent_run_id, correlation_id, alone
from set_config('synchronous_commit', 'off', true), atlas.claim(:worker, :slots, :prefetch, :types, :lease, :alone);
