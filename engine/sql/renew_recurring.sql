-- A run's lease -> a new lease, while it is this process's and alive. Returns whether no other process may run it: a run
-- whose schedule was removed has no lease, and ends by itself.
with renewed as (
  update atlas.recurring_jobs
  set lease_expires_at = clock_timestamp() + make_interval(secs => :lease)
  where tenant_id = :tenant_id
    and id = :id
    and locked_by = :by
    and run_count = :number
    and lease_expires_at > clock_timestamp()
  returning id
)
select exists (select from renewed)
  or not exists (select from atlas.recurring_jobs where tenant_id = :tenant_id and id = :id);
