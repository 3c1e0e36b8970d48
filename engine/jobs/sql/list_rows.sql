-- The jobs of a page by their ids, in any order; without :whole as a table shows them, without inputs and outputs. Without a tenant it
-- looks across all (operators). SQL, because a function shortens the errors.
select id, tenant_id, status::text, atlas.shown_status(j) as shown_status, job_type, definition_id, priority,
  case when :whole::boolean then input else '{}' end as input, case when :whole then output else '{}' end as output,
  case when :whole then error else atlas.brief_error(error) end as error, cost_cents, retry_count,
  atlas.retries_of(job_type, max_retries, retries_chosen) as max_retries, next_retry_at,
  coalesce(next_retry_at, due_at) as scheduled_for, attempt_count, lost_count,
  created_at, updated_at, started_at, finished_at, lease_expires_at, claimed_by, dead_lettered_at, cancel_requested_at,
  cancel_requested_by, dedupe_key, correlation_id, source::text, source_ref, created_by, timeout_seconds, host_id, server_instance_id,
  parent_run_id, progress
from atlas.jobs j
where id = any (:ids::uuid[])
  and (:tenant_id::uuid is null or tenant_id = :tenant_id);
