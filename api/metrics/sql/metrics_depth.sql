-- Active jobs and dead letters by tenant, type and status, along the partial indexes; for callers that see all tenants.
-- `slowed`: while the xmin horizon is held, active jobs are counted among the newest jobs.
-- More than 100,000 of one status are not counted further. The tenants and types with the most jobs are named, :most of each; the others
-- are counted together as (other). SQL, because it counts in groups over bounded reads of partial indexes.
with active as materialized (
  (select tenant_id, job_type, case when next_retry_at > clock_timestamp() then 'waiting' else 'queued' end as status
   from only atlas.jobs where status = 'queued' and not :slowed::boolean order by tenant_id, id limit 100000)
  union all
  (select tenant_id, job_type, 'running' from only atlas.jobs where status = 'running' and not :slowed order by claimed_by, tenant_id limit 100000)
  union all
  (select tenant_id, job_type, case when next_retry_at > clock_timestamp() then 'waiting' else status::text end
   from (select * from only atlas.jobs order by id desc limit case when :slowed then 10000 else 0 end) n
   where status in ('queued', 'running'))
  union all
  (select tenant_id, job_type, 'dead_letter' from only atlas.jobs j where atlas.is_listed(j, 'dead_letter') order by tenant_id, id limit 100000)
),
named_types as (
  select job_type from active group by job_type order by count(*) desc, job_type limit :most::int
),
named_tenants as (
  select tenant_id from active group by tenant_id order by count(*) desc, tenant_id limit :most
)
select case when n.tenant_id is null then '(other)' else coalesce(t.slug, a.tenant_id::text) end as tenant,
  coalesce(y.job_type, '(other)') as job_type, a.status, count(*)::int as count
from active a
left join named_types y on y.job_type = a.job_type
left join named_tenants n on n.tenant_id = a.tenant_id
left join atlas.tenants t on t.id = n.tenant_id
group by 1, 2, 3
order by 1, 2, 3;
