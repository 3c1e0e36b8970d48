-- How many queued jobs of a tenant, or of all, are due later: found among the first of all tenants, up to a bound, by when they are due.
-- Null if there are more than that: then `share` of a sample is all that is known. Looks across tenants: the index has the time alone.
-- SQL, because it counts by the database's clock, in a bounded read.
select case when w.read <= :most::int then w.waiting end as waiting, s.share
from (
  select count(*) as read, count(*) filter (where :tenant_id::uuid is null or tenant_id = :tenant_id) as waiting
  from (
    select tenant_id from only atlas.jobs
    where status = 'queued' and next_retry_at > clock_timestamp()
    order by next_retry_at limit :most + 1) first_due) w
cross join (
  select coalesce(avg(case when next_retry_at > clock_timestamp() then 1.0 else 0.0 end), 0)::float8 as share
  from (
    select next_retry_at from only atlas.jobs
    where status = 'queued' and (:tenant_id is null or tenant_id = :tenant_id)
    order by tenant_id, id limit 1000) oldest) s;
