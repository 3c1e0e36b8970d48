-- running -> queued (failed at the third loss, canceled if asked to stop) where the lease is over.
-- Looks across tenants: leases belong to workers. SQL, because a function does it.
select r.id, r.worker_id, r.verdict, j.tenant_id, j.job_type, j.attempt_count as attempt
from atlas.reap_leases(:limit) r
cross join lateral (
  -- By its key, whatever the planner expects of the number of rows.
  select x.tenant_id, x.job_type, x.attempt_count from only atlas.jobs x where x.id = r.id limit 1
) j;
