-- One job. Without a tenant it looks across all (operators and Atlas's own programs). SQL, because whether a job waits is said
-- by the database's clock, and its retries by a function; Prisma would need a second statement.
select id, tenant_id, status::text, case when status = 'failed' and dead_lettered_at is not null then 'dead_letter'
       when status = 'queued' and next_retry_at > clock_timestamp() then 'waiting' else status::text end as shown_status,
  job_type, definition_id, priority, input, output, error, cost_cents, retry_count,
  atlas.retries_of(job_type, max_retries, retries_chosen) as max_retries, next_retry_at,
  coalesce(next_retry_at, due_at) as scheduled_for, attempt_count, lost_count,
  created_at, updated_at, started_at, finished_at, lease_expires_at, claimed_by, dead_lettered_at, cancel_requested_at,
  cancel_requested_by, dedupe_key, correlation_id, source::text, source_ref, created_by, timeout_seconds, host_id, server_instance_id,
  parent_run_id, progress
from atlas.jobs
where id = :job_id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id);
