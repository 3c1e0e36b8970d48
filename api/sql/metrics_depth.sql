-- Active jobs and dead letters by tenant, type and status, along the partial indexes; for callers that see all tenants.
-- More than 100,000 of one status are not counted further.
with active as (
  (select tenant_id, job_type, case when next_retry_at > clock_timestamp() then 'waiting' else 'queued' end as status
   from atlas.jobs where status = 'queued' limit 100000)
  union all
  (select tenant_id, job_type, 'running' from atlas.jobs where status = 'running' limit 100000)
  union all
  (select tenant_id, job_type, 'dead_letter' from atlas.jobs where dead_lettered_at is not null limit 100000)
)
select coalesce(t.slug, a.tenant_id::text) as tenant, a.job_type, a.status, count(*)::int as count
from active a
left join atlas.tenants t on t.id = a.tenant_id
group by 1, 2, 3
order by 1, 2, 3;
