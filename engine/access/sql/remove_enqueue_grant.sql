-- A grant -> gone; no row: there is none. Across tenants: operators revoke grants. Called by engine/access/grants.py. SQL, because it returns what it deleted.
delete from atlas.enqueue_grants
where id = :id
returning id, login, tenant_id, job_type, created_by, created_at;
