-- The jobs that run now, the last started first. Reads across tenants: every room then gets its own.
select id as job_id, tenant_id, job_type, status::text as status, attempt_count, server_instance_id, progress::text as progress,
  null::int as duration_ms, id::text as entity_id
from atlas.jobs
where status = 'running'
order by started_at desc
limit :most;
