-- queued -> running, for the host that the job names; at most one at a time.
select kind, id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds, definition_id,
  parent_run_id, correlation_id, alone, server_instance_id
from atlas.claim_for_host(:host_id, :lease);
