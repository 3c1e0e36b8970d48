-- One host by its id or by its name within a tenant. Without a tenant it looks across all (operators), by id alone.
select id, tenant_id, name, is_active, last_seen_at, created_at
from atlas.hosts
where (id = :id or (name = :name and tenant_id = :tenant_id))
  and (:tenant_id::uuid is null or tenant_id = :tenant_id);
