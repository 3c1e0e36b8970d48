-- What jobs that were just made, or that held their dedupe key, are now. Their ids come from the statement that made them.
select id, tenant_id, job_type, definition_id is not null as is_command, created_at,
  case when status = 'queued' and next_retry_at > clock_timestamp() then 'waiting' else status::text end as status
from atlas.jobs
where id = any (:ids);
