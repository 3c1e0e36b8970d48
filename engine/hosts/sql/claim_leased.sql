-- queued -> running, for a host, or for a remote worker that serves one tenant and some types; each job under a lease of its own.
-- SQL, because it is a hot verb.
select kind, id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds, definition_id,
  parent_run_id, correlation_id, alone, start_within, finish_within, server_instance_id
from atlas.claim_leased(:claimant, :host_id, :tenant_id, :job_types, :limit, :lease);
