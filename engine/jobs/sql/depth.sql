-- Active jobs by type and status, and how long the oldest is there: since its time came, or since it was made. Read from the partial indexes of active jobs alone.
-- So many of the largest counts, by type. Without a tenant it looks across all (operators). SQL, because it counts in groups by
-- the database's clock.
with depths as (
  select job_type,
    case when status = 'queued' and next_retry_at > clock_timestamp() then 'waiting' else status::text end as status,
    count(*)::int as count,
    extract(epoch from clock_timestamp() - min(case when next_retry_at <= clock_timestamp() then next_retry_at else coalesce(due_at, created_at) end))::float8 as oldest_seconds
  from only atlas.jobs
  where status in ('queued', 'running')
    and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  group by 1, 2
  order by 3 desc, 1, 2
  limit :most
)
select job_type, status, count, oldest_seconds
from depths
order by job_type, status;
