-- How long the oldest job that is due has waited, in seconds. One tenant's queue is walked in the order of its ids, at most
-- so far; across tenants (operators) the ready index is entered once for each priority in it.
with recursive priorities as (
  (select priority from jobs
   where :tenant_id::uuid is null and status = 'queued' and next_retry_at is null and host_id is null and not careful
   order by priority desc limit 1)
  union all
  select (
    select j.priority from jobs j
    where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful and j.priority < p.priority
    order by j.priority desc limit 1)
  from priorities p
  where p.priority is not null
),
oldest as (
  select min(a.created_at) as created_at
  from priorities p
  cross join lateral (
    select j.created_at from jobs j
    where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful and j.priority = p.priority
    order by j.created_at limit 1) a
  union all
  select min(w.created_at) filter (where w.next_retry_at is null or w.next_retry_at <= clock_timestamp())
  from (
    select created_at, next_retry_at from jobs
    where status = 'queued' and tenant_id = :tenant_id
    order by id limit :most::int) w
)
select extract(epoch from clock_timestamp() - min(created_at))::float8 from oldest;
