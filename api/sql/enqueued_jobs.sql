-- The present state of jobs that were just enqueued, or that held their dedupe key, so none is in history. Their ids come from the enqueue. SQL,
-- because whether a job waits is said by the database's clock.
select id, tenant_id, job_type, definition_id is not null as is_command, created_at,
  case when status = 'queued' and next_retry_at > clock_timestamp() then 'waiting' else status::text end as status
from only atlas.jobs
where id = any (:ids);
