-- Active jobs by type and status, read from the partial indexes of active jobs alone.
-- Without a tenant it looks across all (operators).
select job_type,
  case when status = 'queued' and next_retry_at > clock_timestamp() then 'waiting' else status::text end as status,
  count(*)::int as count,
  extract(epoch from clock_timestamp() - min(coalesce(next_retry_at, created_at)))::float8 as oldest_seconds
from jobs
where status in ('queued', 'running')
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
group by 1, 2
order by 1, 2;
