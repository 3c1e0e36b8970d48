-- queued -> running for the free slots, where there is nothing to finish. Looks across tenants: a worker serves them all. SQL,
-- because a function does it.
select kind, id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds, definition_id,
  parent_run_id, correlation_id, alone, start_within, finish_within
from atlas.claim(:worker, :slots, :prefetch, :types, :lease, :alone, :fair, :after, null, :resume::text::jsonb);
