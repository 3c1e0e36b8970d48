-- The workers whose lease stands, for people; they serve all tenants. SQL, because who is alive is said by the database's
-- clock.
select worker_id, hostname, version, job_types, running_count, started_at, last_seen_at
from atlas.job_workers
where dead_at is null
  and lease_expires_at > clock_timestamp()
order by started_at;
