-- queued -> running, for a worker outside that serves one tenant and some types; each job under a lease of its own.
select kind, id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds, definition_id,
  parent_run_id, correlation_id, alone
from atlas.claim_for_remote(:claimant, :tenant_id, :job_types, :limit, :lease);
