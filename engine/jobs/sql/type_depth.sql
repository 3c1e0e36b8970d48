-- Due jobs and running jobs of all tenants by type, each counted up to a bound. The types are walked along the index of ready jobs,
-- the first hundred by name; jobs under a limit and jobs of hosts are counted up to a bound over all types. Looks across tenants
-- (operators). SQL, because it walks an index by recursion, in reads that are bounded.
with recursive types as (
  (select 1 as nth, job_type from only atlas.jobs j
   where atlas.is_ready(j)
   order by job_type limit 1)
  union all
  select t.nth + 1, (
    select j.job_type from only atlas.jobs j
    where atlas.is_ready(j) and j.job_type > t.job_type
    order by j.job_type limit 1)
  from types t
  where t.job_type is not null
    and t.nth < 100
),
counted as (
  select t.job_type, r.count as queued, 0 as running
  from types t
  cross join lateral (
    select count(*) as count
    from (
      select from only atlas.jobs j
      where atlas.is_ready(j) and j.job_type = t.job_type
      limit :most::int) ready) r
  where t.job_type is not null
  union all
  select job_type, count(*), 0
  from (select job_type from only atlas.jobs j where atlas.is_ready_limited(j) limit :most) c
  group by job_type
  union all
  select job_type, count(*), 0
  from (select job_type from only atlas.jobs where status = 'queued' and next_retry_at is null and host_id is not null limit :most) h
  group by job_type
  union all
  select job_type, 0, count(*)
  from (select job_type from only atlas.jobs where status = 'running' limit :most) r
  group by job_type
)
select job_type, sum(queued)::int as queued, sum(running)::int as running, sum(queued) >= :most as is_partial
from counted
group by job_type;
