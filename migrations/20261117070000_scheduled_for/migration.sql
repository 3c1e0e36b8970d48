-- The time that a job was enqueued for. next_retry_at moves with every retry, and due_at with every wait; this stays.
alter table jobs add column scheduled_for timestamptz(6);
-- No plan asks for it.
alter table jobs alter column scheduled_for set statistics 0;

-- shown_jobs had the latest due time under this name; listed_jobs reads it from there.
create or replace view shown_jobs with (security_invoker = true) as
select j.id, j.tenant_id, j.status,
  case when j.status = 'failed' and j.dead_lettered_at is not null then 'dead_letter'
       when j.status = 'queued' and j.next_retry_at > statement_timestamp() then 'waiting' else j.status::text end as shown_status,
  j.job_type, j.definition_id, j.priority, j.input, j.output, j.error, j.cost_cents, j.retry_count,
  case when j.retries_chosen then j.max_retries
       else coalesce((select y.max_retries from job_types y where y.key = j.job_type), j.max_retries) end as max_retries,
  j.next_retry_at, j.scheduled_for, j.attempt_count, j.lost_count, j.created_at, j.updated_at,
  j.started_at, j.finished_at, j.lease_expires_at, j.claimed_by, j.dead_lettered_at, j.cancel_requested_at, j.cancel_requested_by,
  j.dedupe_key, j.correlation_id, j.source, j.source_ref, j.created_by, j.timeout_seconds, j.host_id, j.server_instance_id,
  j.parent_run_id, j.progress, j.start_by, j.finish_by, j.group_id
from jobs j;
