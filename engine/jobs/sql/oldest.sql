-- How long the oldest due job of all tenants has waited, in seconds.
-- The ready index is searched once for each of the thousand highest priorities in it; of careful and host-bound jobs, a sample is read.
-- A job has waited since it was due, or since it was created. The index has the order of creation: of each priority the oldest
-- twenty are looked at, so that one that was due just now does not hide another. SQL, because it walks an index by recursion,
-- on the database's clock.
with recursive priorities as (
  (select 1 as nth, priority from atlas.jobs
   where status = 'queued' and next_retry_at is null and host_id is null and not careful
   order by priority desc limit 1)
  union all
  select p.nth + 1, (
    select j.priority from atlas.jobs j
    where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful and j.priority < p.priority
    order by j.priority desc limit 1)
  from priorities p
  where p.priority is not null
    and p.nth < 1000
),
oldest as (
  select min(a.since) as since
  from priorities p
  cross join lateral (
    select coalesce(j.due_at, j.created_at) as since from atlas.jobs j
    where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful and j.priority = p.priority
    order by j.created_at limit 20) a
  union all
  (select next_retry_at from atlas.jobs
   where status = 'queued' and next_retry_at <= statement_timestamp()
   order by next_retry_at limit 1)
  union all
  select min(coalesce(due_at, created_at))
  from (select due_at, created_at from atlas.jobs where status = 'queued' and next_retry_at is null and host_id is null and careful limit 10000) c
  union all
  select min(coalesce(due_at, created_at))
  from (select due_at, created_at from atlas.jobs where status = 'queued' and next_retry_at is null and host_id is not null limit 10000) h
)
select extract(epoch from clock_timestamp() - min(since))::float8 from oldest;
