-- Renews a living lease, never a lapsed one: no row means that this worker is dead. Returns whether it was asked to drain. SQL, because the guard is on the database's
-- clock.
update atlas.job_workers
set lease_expires_at = clock_timestamp() + :lease::float8 * interval '1 second',
    last_seen_at     = clock_timestamp(),
    running_count    = :running,
    stall            = null,
    suspect_job_id   = null
where worker_id = :worker
  and dead_at is null
  and lease_expires_at > clock_timestamp()
returning drain_requested_at is not null as is_draining;
