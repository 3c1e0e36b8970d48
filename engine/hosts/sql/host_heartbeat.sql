-- Renews the lease of a host's job while it is alive and in the same hands, and tells whether the job was asked to stop.
update atlas.jobs
set lease_expires_at = clock_timestamp() + :lease::float8 * interval '1 second'
where id = :job_id
  and status = 'running'
  and claimed_by = :claimant
  and attempt_count = :attempt
  and lease_expires_at > clock_timestamp()
returning cancel_requested_at is not null as cancel_requested;
