-- The grants of a login -> gone: all, or those of a tenant or a job type. Across tenants: a login may have grants of several. Called by
-- engine/access/grants.py. SQL, because it returns what it deleted.
delete from atlas.enqueue_grants
where login = :login
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:job_type::text is null or job_type = :job_type)
returning id, login, tenant_id, job_type, created_by, created_at;
