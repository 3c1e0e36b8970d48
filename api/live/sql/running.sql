-- The jobs that run now, those that began last first. Looks across tenants: every room is then given its own.
select id as job_id, tenant_id, job_type, status::text as status, attempt_count, server_instance_id, progress::text as progress,
  null::int as duration_ms, id::text as entity_id
from atlas.jobs
where status = 'running'
order by started_at desc
limit :most;
