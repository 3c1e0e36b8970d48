-- Jobs by status, each arm counted along a partial index up to so many. Without a tenant it looks across all (operators).
-- The arms are planned for the tenant that is given: with one, along (tenant_id, id) alone.
with
queued as (
  select next_retry_at from atlas.jobs
  where status = 'queued' and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  limit :most::int + 1
),
running as (
  select from atlas.jobs
  where status = 'running' and (:tenant_id is null or tenant_id = :tenant_id)
  limit :most + 1
),
dead as (
  select from atlas.jobs
  where dead_lettered_at is not null and (:tenant_id is null or tenant_id = :tenant_id)
  limit :most + 1
),
ended as (
  select status from atlas.jobs
  where status in ('succeeded', 'failed', 'canceled') and (:tenant_id is null or tenant_id = :tenant_id)
  limit :most + 1
)
select q.ready as queued, q.waiting, r.n as running, d.n as dead_letter, e.succeeded, e.failed, e.canceled,
  q.n > :most as queued_more, q.n > :most as waiting_more, r.n > :most as running_more, d.n > :most as dead_letter_more,
  e.n > :most as ended_more
from (
  select count(*) as n, count(*) filter (where next_retry_at > clock_timestamp()) as waiting,
    count(*) filter (where next_retry_at is null or next_retry_at <= clock_timestamp()) as ready
  from queued) q
cross join (select count(*) as n from running) r
cross join (select count(*) as n from dead) d
cross join (
  select count(*) as n, count(*) filter (where status = 'succeeded') as succeeded,
    count(*) filter (where status = 'failed') as failed,
    count(*) filter (where status = 'canceled') as canceled
  from ended) e;
