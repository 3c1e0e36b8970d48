-- The jobs that run now, those that changed last first: a number of each of these tenants, and a number of all together with `every`.
-- Of a run also when a step of it began or ended last: of those that changed last, and among the last steps of its main branch and of
-- all branches, so that a run of thousands of steps is as quick. Reads across tenants: every room then gets its own. SQL, because it has
-- window functions.
select r.*, (
  select max(greatest(s.started_at, s.finished_at))
  from (
    (select started_at, finished_at from only atlas.workflow_steps where run_id = r.run_id and branch = '' order by position desc limit 8)
    union all
    (select started_at, finished_at from only atlas.workflow_steps where run_id = r.run_id order by branch desc, position desc limit 32)
  ) s) as stepped_at
from (
  select *, case when job_type = :run::text and (of_tenant <= :max_runs::int or of_all <= :max_runs) then job_id end as run_id
  from (
    select id as job_id, tenant_id, job_type, correlation_id, status::text as status, attempt_count, server_instance_id,
      progress::text as progress, coalesce(started_at, updated_at) as started_at, updated_at, null::int as duration_ms, id::text as entity_id,
      row_number() over (partition by tenant_id order by updated_at desc, id) as of_tenant,
      row_number() over (order by updated_at desc, id) as of_all
    from only atlas.jobs
    where status = 'running'
      and (:every::boolean or tenant_id = any (:tenants::uuid[]))
  ) j
) r
where (:every and of_all <= :most::int)
   or (tenant_id = any (:tenants) and of_tenant <= :most);
