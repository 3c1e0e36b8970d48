-- Due jobs and running jobs of one tenant by type: of its queue the oldest by id, up to a bound, whatever their type. Each arm has the order of
-- its index, because the planner has no statistics behind row-level security. SQL, because it counts in groups over bounded reads.
with queue as (
  select job_type, next_retry_at > clock_timestamp() as is_waiting from only atlas.jobs
  where status = 'queued' and tenant_id = :tenant_id::uuid
  order by id limit :most::int
),
counted as (
  select job_type, count(*) filter (where is_waiting is not true) as queued, 0 as running from queue group by job_type
  union all
  select job_type, 0, count(*)
  from (
    select job_type from only atlas.jobs
    where status = 'running' and tenant_id = :tenant_id
    order by claimed_by, tenant_id limit :most) r
  group by job_type
)
select job_type, sum(queued)::int as queued, sum(running)::int as running, (select count(*) >= :most from queue) as is_partial
from counted
group by job_type
having sum(queued + running) > 0;
