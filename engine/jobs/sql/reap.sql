-- running -> queued (failed at the third loss, canceled if asked to stop) where the lease is over.
-- Looks across tenants: leases belong to workers. SQL, because a function does it.
select r.id, r.worker_id, r.verdict, j.tenant_id, j.job_type, j.attempt_count as attempt
from atlas.reap_leases(:limit) r
join atlas.jobs j on j.id = r.id;
