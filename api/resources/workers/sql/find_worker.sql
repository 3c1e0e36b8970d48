-- One worker process, for operators; it serves all tenants. SQL, because whether it is alive is said by the database's clock.
select worker_id, hostname, version, job_types, running_count, started_at, last_seen_at, lease_expires_at, dead_at,
  drain_requested_at, drain_requested_by, (metadata->>'concurrency')::int as concurrency, dead_at is null and lease_expires_at > clock_timestamp() as is_alive
from atlas.job_workers
where worker_id = :worker_id;
