-- The failed jobs of a tenant, or of all, that ended last, dead letters among them. Without a tenant it looks across all (operators): the
-- last of all are of the tenants whose own last is the latest. Reads along the index of ends, of each tenant at most :max_read failed and
-- canceled jobs. SQL, because it walks an index by recursion, in reads that are bounded.
with recursive tenants as (
  select coalesce(:tenant_id::uuid, (
    select tenant_id from atlas.jobs where status in ('failed', 'canceled') order by tenant_id limit 1)) as tenant_id
  union all
  select (
    select j.tenant_id from atlas.jobs j
    where j.status in ('failed', 'canceled') and j.tenant_id > t.tenant_id order by j.tenant_id limit 1)
  from tenants t
  where :tenant_id is null and t.tenant_id is not null
),
latest as materialized (
  select t.tenant_id, (
    select j.finished_at
    from (
      select status, finished_at from atlas.jobs
      where status in ('failed', 'canceled') and tenant_id = t.tenant_id
      order by finished_at desc, id desc
      limit :max_read::int) j
    where j.status = 'failed'
    order by j.finished_at desc
    limit 1) as finished_at
  from tenants t
  where t.tenant_id is not null
  order by 2 desc nulls last
  limit :limit::int
)
select f.id, f.tenant_id, n.slug as tenant, f.job_type, f.dead_lettered_at is not null as is_dead_letter, f.finished_at, f.attempt_count,
  left(f.error->>'type', 200) as error_type, left(f.error->>'message', 300) as error
from latest t
cross join lateral (
  select *
  from (
    select * from atlas.jobs
    where status in ('failed', 'canceled') and tenant_id = t.tenant_id
    order by finished_at desc, id desc
    limit :max_read) j
  where j.status = 'failed'
  order by j.finished_at desc, j.id desc
  limit :limit) f
left join atlas.tenants n on n.id = f.tenant_id
order by f.finished_at desc, f.id desc
limit :limit;
