-- Renews the lease that one job carries itself, while it is alive and has the same holder. Returns whether the job was asked to
-- stop. SQL, because the guard is on the database's clock.
update only atlas.jobs
set lease_expires_at = clock_timestamp() + :lease::float8 * interval '1 second'
where id = :job_id
  and status = 'running'
  and claimed_by = :claimant
  and attempt_count = :attempt
  and lease_expires_at > clock_timestamp()
returning cancel_requested_at is not null;
