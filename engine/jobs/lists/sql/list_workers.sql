-- The worker processes, newest first, for operators; they serve all tenants. The dead are shown for a day. SQL, because who is
-- alive is said by the database's clock.
select worker_id, hostname, version, job_types, running_count, started_at, last_seen_at, lease_expires_at, dead_at,
  drain_requested_at, drain_requested_by, (metadata->>'concurrency')::int as concurrency, dead_at is null and lease_expires_at > clock_timestamp() as is_alive
from atlas.job_workers
where case when :alive_only::boolean then dead_at is null and lease_expires_at > clock_timestamp()
           else last_seen_at > clock_timestamp() - interval '1 day' end
  and (:started_at::timestamptz is null or (started_at, worker_id) < (:started_at, :worker_id::text))
order by started_at desc, worker_id desc
limit :limit;
