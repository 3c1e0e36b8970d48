-- A run's lease -> a new lease, while it is alive. Looks across tenants: a process serves them all. SQL, because the guard is
-- on the database's clock.
update atlas.recurring_runs
set lease_expires_at = clock_timestamp() + make_interval(secs => :lease)
where id = :run_id
  and finished_at is null
  and lease_expires_at > clock_timestamp()
returning id;
