-- queued -> running for one job of one tenant and type, ahead of the free slots. Nothing is claimed for a tenant that has used more than its
-- share of the workers. SQL, because a function does it.
select kind, id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds, definition_id,
  parent_run_id, correlation_id, alone, start_within, finish_within
from atlas.claim(:worker, 0, 1, array[:job_type::text], null, false, true, null, :tenant_id);
