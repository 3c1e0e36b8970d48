-- Active jobs by type and status, and how long the oldest is there: since its time came, or since it was made. Read from the partial indexes of active jobs alone.
-- The largest counts, by type. It looks across tenants (operators). SQL, because it counts in groups by the database's clock.
with depths as (
  select job_type,
    case when status = 'queued' and next_retry_at > clock_timestamp() then 'waiting' else status::text end as status,
    count(*)::int as count,
    extract(epoch from clock_timestamp() - min(case when next_retry_at <= clock_timestamp() then next_retry_at else coalesce(due_at, created_at) end))::float8 as oldest_seconds
  from only atlas.jobs
  where status in ('queued', 'running')
  group by 1, 2
  order by 3 desc, 1, 2
  limit :max_depths
)
select job_type, status, count, oldest_seconds
from depths
order by job_type, status;
