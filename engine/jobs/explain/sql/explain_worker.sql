-- A worker process, what it runs, and what is due for it and for others: all that decides whether it takes a job now. Counts are
-- bounded. A worker without types serves all. Looks across tenants: a worker serves all of them. Called by engine/jobs/explain/explain_worker.py.
-- SQL, because it reads all of it in one snapshot, on the database's clock.
with recursive me as (
  select w.worker_id, w.job_types, w.lease_expires_at, w.dead_at, w.last_seen_at, w.drain_requested_at, w.drain_requested_by,
    (w.metadata->>'concurrency')::int as concurrency, w.lease_expires_at > clock_timestamp() as has_lease
  from atlas.job_workers w
  where w.worker_id = :worker_id
),
paused as materialized (
  select p.types, p.tenants from atlas.paused_now() p
),
-- from type to type along the index of ready jobs
present as (
  (select job_type from only atlas.jobs j
   where atlas.is_ready(j)
   order by job_type limit 1)
  union all
  select (select j.job_type from only atlas.jobs j
          where atlas.is_ready(j) and j.job_type > p.job_type
          order by j.job_type limit 1)
  from present p
  where p.job_type is not null
),
ready as (
  select p.job_type, cardinality(me.job_types) = 0 or p.job_type = any (me.job_types) as is_served, c.count, c.paused
  from present p
  cross join me
  cross join paused s
  cross join lateral (
    select count(*) filter (where not r.is_paused) as count, count(*) filter (where r.is_paused) as paused
    from (
      select p.job_type = any (s.types) or j.tenant_id = any (s.tenants) as is_paused from only atlas.jobs j
      where atlas.is_ready(j) and j.job_type = p.job_type
      limit 1000) r) c
  where p.job_type is not null
),
limited as (
  select j.job_type, cardinality(me.job_types) = 0 or j.job_type = any (me.job_types) as is_served, j.lost_count
  from me
  cross join lateral (
    select job_type, lost_count from only atlas.jobs j
    where atlas.is_ready_limited(j) limit 1000) j
)
select me.*,
  (select s.value from atlas.system_state s where s.key = 'atlas_online') as gate,
  (select count(*) from only atlas.jobs j where j.claimed_by = me.worker_id and j.status = 'running')::int as running,
  coalesce((select sum(r.count) from ready r where r.is_served), 0)::int as ready,
  coalesce((select sum(r.paused) from ready r where r.is_served), 0)::int as paused,
  coalesce((select sum(r.count) from ready r where not r.is_served), 0)::int as of_others,
  array(select r.job_type from ready r where not r.is_served and r.count > 0 order by r.count desc, r.job_type limit 3) as other_types,
  (select count(*) from limited c where c.is_served)::int as limited,
  (select count(*) from limited c where c.is_served and c.lost_count >= atlas.alone_after_losses())::int as alone,
  (select count(*) from (
     select from only atlas.jobs j where j.status = 'queued' and j.next_retry_at is null and j.host_id is not null limit 1000) h)::int as for_hosts,
  (select min(l.next_retry_at) from (
     select j.job_type, j.next_retry_at from only atlas.jobs j
     where j.status = 'queued' and j.next_retry_at is not null order by j.next_retry_at limit 1000) l
   where cardinality(me.job_types) = 0 or l.job_type = any (me.job_types)) as next_due_at
from me;
