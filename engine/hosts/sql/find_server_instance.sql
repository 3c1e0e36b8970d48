-- One server instance by its id or by its name within a tenant, and on one host if that is named. Without a tenant it looks across
-- all (operators), by id alone. Called by engine/hosts/server_instances.py.
select id, tenant_id, host_id, name, created_at
from atlas.server_instances
where (id = :id or (name = :name and tenant_id = :tenant_id))
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:host_id::uuid is null or host_id = :host_id);
