-- A run's lease -> a new lease, while it is this program's and alive.
update recurring_jobs
set lease_expires_at = clock_timestamp() + make_interval(secs => :lease)
where tenant_id = :tenant_id
  and id = :id
  and locked_by = :by
  and run_count = :number
  and lease_expires_at > clock_timestamp()
returning id;
