-- Jobs that a worker of these types could claim now, at most a million. Looks across tenants: a worker serves them all. SQL,
-- because the count is bounded, on the database's clock.
select count(*)::int
from (
  select
  from only atlas.jobs
  where status = 'queued'
    and (next_retry_at is null or next_retry_at <= clock_timestamp())
    and host_id is null
    and job_type = any (:job_types)
  limit 1000000
) due;
