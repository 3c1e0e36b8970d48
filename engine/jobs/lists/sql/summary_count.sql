-- Jobs by status, each arm along a partial index, up to a bound. Behind them the counts that are kept: an arm that has more by them is
-- not read, and whatever has more is taken from there. Without a tenant it looks across all (operators).
-- Every arm has the order of its index, so that the planner, which has no statistics behind row-level security, takes no other way.
-- SQL, because it counts along partial indexes, in reads that are bounded.
with
kept as materialized (
  select coalesce(sum(jobs - succeeded - failed - canceled), 0)::bigint as active, coalesce(sum(succeeded), 0)::bigint as succeeded,
    coalesce(sum(failed), 0)::bigint as failed, coalesce(sum(canceled), 0)::bigint as canceled,
    coalesce(sum(dead_letters), 0)::bigint as dead_letters
  from atlas.job_counts
  where :tenant_id::uuid is null or tenant_id = :tenant_id
),
queued as (
  select next_retry_at > clock_timestamp() as is_waiting from only atlas.jobs
  where status = 'queued' and (:tenant_id is null or tenant_id = :tenant_id)
  order by tenant_id, id
  limit case when (select active from kept) > :most::int then 0 else :most + 1 end
),
running as (
  select from only atlas.jobs
  where status = 'running' and (:tenant_id is null or tenant_id = :tenant_id)
  order by claimed_by, tenant_id
  limit :most + 1
),
ended as (
  select status, dead_lettered_at from atlas.jobs
  where status in ('succeeded', 'failed', 'canceled') and (:tenant_id is null or tenant_id = :tenant_id)
  order by tenant_id, id
  limit case when (select succeeded + failed + canceled from kept) > :most then 0 else :most + 1 end
)
select q.n as queued, q.waiting, r.n as running, e.n as ended, e.succeeded, e.failed, e.canceled, e.dead_letter,
  k.active as kept_active, k.succeeded as kept_succeeded, greatest(0, k.failed - k.dead_letters) as kept_failed, k.canceled as kept_canceled,
  k.dead_letters as kept_dead_letter, q.n > :most or k.active > :most as has_many_active,
  e.n > :most or k.succeeded + k.failed + k.canceled > :most as has_many_ended
from (select count(*) as n, count(*) filter (where is_waiting) as waiting from queued) q
cross join (select count(*) as n from running) r
cross join (
  select count(*) as n, count(*) filter (where status = 'succeeded') as succeeded, 
    count(*) filter (where status = 'failed' and dead_lettered_at is null) as failed,
    count(*) filter (where status = 'canceled') as canceled, count(dead_lettered_at) as dead_letter
  from ended) e
cross join kept k;
