-- How long the oldest due job of all tenants has waited, in seconds.
-- The ready index is walked by type and tenant, the first five thousand of them, and searched once for each of the hundred highest
-- priorities there; of limited and host-bound jobs, a sample is read.
-- A job has waited since it was due, or since it was created. The index has the order of creation: of each priority the oldest
-- twenty are looked at, so that one that was due just now does not hide another. SQL, because it walks an index by recursion,
-- on the database's clock.
with recursive queues as (
  (select 1 as nth, job_type, tenant_id from only atlas.jobs j
   where atlas.is_ready(j)
   order by job_type, tenant_id limit 1)
  union all
  select q.nth + 1, n.job_type, n.tenant_id
  from queues q
  cross join lateral (
    select j.job_type, j.tenant_id from only atlas.jobs j
    where atlas.is_ready(j)
      and (j.job_type, j.tenant_id) > (q.job_type, q.tenant_id)
    order by j.job_type, j.tenant_id limit 1) n
  where q.nth < 5000
),
priorities as (
  select 1 as nth, q.job_type, q.tenant_id, f.priority
  from queues q
  cross join lateral (
    select j.priority from only atlas.jobs j
    where atlas.is_ready(j)
      and j.job_type = q.job_type and j.tenant_id = q.tenant_id
    order by j.priority desc limit 1) f
  union all
  select p.nth + 1, p.job_type, p.tenant_id, n.priority
  from priorities p
  cross join lateral (
    select j.priority from only atlas.jobs j
    where atlas.is_ready(j)
      and j.job_type = p.job_type and j.tenant_id = p.tenant_id and j.priority < p.priority
    order by j.priority desc limit 1) n
  where p.nth < 100
),
oldest as (
  select min(a.since) as since
  from priorities p
  cross join lateral (
    select coalesce(j.due_at, j.created_at) as since from only atlas.jobs j
    where atlas.is_ready(j)
      and j.job_type = p.job_type and j.tenant_id = p.tenant_id and j.priority = p.priority
    order by j.created_at limit 20) a
  union all
  (select next_retry_at from only atlas.jobs
   where status = 'queued' and next_retry_at <= statement_timestamp()
   order by next_retry_at limit 1)
  union all
  select min(coalesce(due_at, created_at))
  from (select due_at, created_at from only atlas.jobs j where atlas.is_ready_limited(j) limit 10000) c
  union all
  select min(coalesce(due_at, created_at))
  from (select due_at, created_at from only atlas.jobs where status = 'queued' and next_retry_at is null and host_id is not null limit 10000) h
)
select extract(epoch from clock_timestamp() - min(since))::float8 from oldest;
