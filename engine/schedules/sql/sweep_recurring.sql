-- running -> lost, for runs whose lease is over. Looks across tenants: any scheduler sweeps for all. SQL, because a function
-- does it.
select id, tenant_id, recurring_id, attempt_no, worker_id from atlas.sweep_recurring();
