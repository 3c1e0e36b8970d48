-- alive -> asked to drain. No row: there is no such worker; `is_new` is false where it was asked before. The worker sees it with its
-- next heartbeat, which the notification asks for. Called by engine/jobs/lease.py. SQL, because the guard is on the database's clock.
with asked as (
  update atlas.job_workers
  set drain_requested_at = clock_timestamp(), drain_requested_by = :by
  where worker_id = :worker
    and dead_at is null
    and lease_expires_at > clock_timestamp()
    and drain_requested_at is null
  returning pg_notify('atlas_workers', worker_id)
)
select w.dead_at is null and w.lease_expires_at > clock_timestamp() as is_alive, exists (select from asked) as is_new
from atlas.job_workers w
where w.worker_id = :worker;
