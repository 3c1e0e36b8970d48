-- Grants a login a job type of a tenant; no row: it was granted before, or the tenant is going away. Called by engine/access/grants.py. SQL, because
-- of the conflict.
insert into atlas.enqueue_grants (login, tenant_id, job_type, created_by)
select :login, t.id, :job_type, :created_by
from atlas.tenants t
where t.id = :tenant_id
  and t.removing_at is null
  and t.moving_at is null
on conflict (login, tenant_id, job_type) do nothing
returning id, login, tenant_id, job_type, created_by, created_at;
