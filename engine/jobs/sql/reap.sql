-- running -> queued (failed at the third loss, canceled if asked to stop) where the lease is over.
-- Looks across tenants: leases belong to workers.
select id, worker_id, verdict from atlas.reap_leases(:limit);
