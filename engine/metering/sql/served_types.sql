-- The job types that a living worker serves. For all tenants: workers belong to none. SQL, because it unnests lists, on the
-- database's clock.
select distinct unnest(job_types) as job_type
from atlas.job_workers
where dead_at is null
  and lease_expires_at > clock_timestamp();
