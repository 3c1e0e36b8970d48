-- Active jobs among the newest :most jobs of all tenants, and up to :most of those that are due later, by tenant, type and status: how many, and since
-- when the oldest is due or was created. Reads the table by its key: while a transaction holds the xmin horizon, the partial indexes of active jobs
-- also have an entry for each job that ended since. Looks across tenants, and is for callers that see them all.
-- SQL, because it counts in groups over bounded reads, on the database's clock.
with newest as (
  select tenant_id, job_type, status, next_retry_at, due_at, created_at
  from only atlas.jobs
  order by id desc limit :most::int
),
later as (
  select tenant_id, job_type
  from only atlas.jobs
  where status = 'queued' and next_retry_at > statement_timestamp()
  order by next_retry_at limit :most
)
select tenant_id, job_type, status::text, count(*)::int as count, min(coalesce(next_retry_at, due_at, created_at)) as since,
  extract(epoch from clock_timestamp() - min(coalesce(next_retry_at, due_at, created_at)))::float8 as seconds
from newest
where status = 'running' or (status = 'queued' and coalesce(next_retry_at <= statement_timestamp(), true))
group by tenant_id, job_type, status
union all
select tenant_id, job_type, 'waiting', count(*)::int, null, null
from later
group by tenant_id, job_type;
