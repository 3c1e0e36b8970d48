-- The newest dead letters by type and error: how many, since when, and the newest of each, the largest groups first. Looks at
-- :most_read of a tenant; `examined` says at how many in all. Without a tenant it looks across all (operators). SQL, because it
-- groups by a function of the error, along a partial index.
with recursive
tenants as (
  select coalesce(:tenant_id::uuid, (
    select tenant_id from only atlas.jobs j where atlas.is_listed(j, 'dead_letter') order by tenant_id limit 1)) as tenant_id
  union all
  select (
    select j.tenant_id from only atlas.jobs j where atlas.is_listed(j, 'dead_letter') and j.tenant_id > t.tenant_id order by j.tenant_id limit 1)
  from tenants t
  where :tenant_id is null and t.tenant_id is not null
),
letters as materialized (
  select j.*
  from tenants t
  cross join lateral (
    select id, job_type, error->>'type' as error_type, left(error->>'message', 300) as message,
      error->>'outcome' = 'unknown' as is_unknown, dead_lettered_at
    from only atlas.jobs j
    where atlas.is_listed(j, 'dead_letter')
      and tenant_id = t.tenant_id
    order by id desc
    limit :most_read::int) j
  limit :most_of_all::int
),
-- the same message is normalised once
messages as (
  select job_type, error_type, message, atlas.error_pattern(message) as error_pattern, count(*) as count,
    count(*) filter (where is_unknown) as unknown_outcomes, min(dead_lettered_at) as first_at, max(dead_lettered_at) as last_at,
    (array_agg(id order by dead_lettered_at desc))[1] as sample_id
  from letters
  group by job_type, error_type, message
),
groups as (
  select job_type, error_type, error_pattern, sum(count)::int as count, sum(unknown_outcomes)::int as unknown_outcomes,
    min(first_at) as first_at, max(last_at) as last_at,
    (array_agg(sample_id order by last_at desc))[1] as sample_id, (array_agg(message order by last_at desc))[1] as message
  from messages
  group by job_type, error_type, error_pattern
)
select g.*, (select count(*)::int from letters) as examined
from groups g
order by g.count desc, g.last_at desc
limit :limit::int;
