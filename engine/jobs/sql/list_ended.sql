-- The ids of a page of failed and canceled jobs, those that ended last first. Without a tenant it looks across all (operators), at
-- the last of each tenant. Looks at :most_read jobs of a tenant for what no index serves: `reached_at` and `reached_id` are then
-- where the page ends, and the next one begins. The only row of an empty page has no id. SQL, because it reads along a partial
-- index, tenant by tenant, in reads that are bounded.
with recursive
tenants as (
  select coalesce(:tenant_id::uuid, (
    select tenant_id from atlas.jobs where status in ('failed', 'canceled')
    order by tenant_id limit 1)) as tenant_id
  union all
  select (
    select j.tenant_id from atlas.jobs j
    where j.status in ('failed', 'canceled') and j.tenant_id > t.tenant_id order by j.tenant_id limit 1)
  from tenants t
  where :tenant_id is null and t.tenant_id is not null
),
keys as materialized (
  select k.finished_at, k.id, k.nth
  from tenants t
  cross join lateral (
    select j.finished_at, j.id, row_number() over (order by j.finished_at desc, j.id desc) as nth
    from (
      select finished_at, id from atlas.jobs
      where status in ('failed', 'canceled')
        and tenant_id = t.tenant_id
        and (finished_at, id) < (coalesce(:before_at::timestamptz, 'infinity'), coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
        and finished_at >= coalesce(:finished_after::timestamptz, '-infinity')
        and finished_at < coalesce(:finished_before::timestamptz, 'infinity')
      order by finished_at desc, id desc
      limit :most_read::int) j) k
),
-- the last of a tenant at which reading stopped
reached as materialized (
  select finished_at, id from keys where nth = :most_read order by finished_at desc, id desc limit 1
),
found as (
  select k.finished_at, k.id
  from keys k
  join atlas.jobs j on j.id = k.id
  where (k.finished_at, k.id) >= (coalesce((select finished_at from reached), '-infinity'), coalesce((select id from reached), '00000000-0000-0000-0000-000000000000'))
    and j.status in ('failed', 'canceled')
    and atlas.shown_status(j) = any (:statuses::text[])
    and (:correlation_id::text is null or j.correlation_id = :correlation_id)
    and (:parent_run_id::uuid is null or j.parent_run_id = :parent_run_id)
    and (:group_id::uuid is null or j.group_id = :group_id)
    and k.id between coalesce(:lowest::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(:highest::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, null, null, :worker_id, :host_id, :error_type,
      :error_text, :error_pattern)
  order by k.finished_at desc, k.id desc
  limit :limit::int
)
select f.finished_at, f.id, (select finished_at from reached) as reached_at, (select id from reached) as reached_id
from (values (1)) one
left join found f on true
order by f.finished_at desc, f.id desc;
