-- The jobs that run now, those that changed last first: so many of each of these tenants, and so many of all together where `every` is
-- wanted. Reads across tenants: every room then gets its own. SQL, because it has window functions.
select *
from (
  select id as job_id, tenant_id, job_type, correlation_id, status::text as status, attempt_count, server_instance_id, progress::text as progress,
    coalesce(started_at, updated_at) as started_at, updated_at, null::int as duration_ms, id::text as entity_id,
    row_number() over (partition by tenant_id order by updated_at desc, id) as of_tenant,
    row_number() over (order by updated_at desc, id) as of_all
  from atlas.jobs
  where status = 'running'
    and (:every::boolean or tenant_id = any (:tenants::uuid[]))
) r
where (:every and of_all <= :most::int)
   or (tenant_id = any (:tenants) and of_tenant <= :most);
