-- nothing -> a server instance on a host of the same tenant. No row: the tenant has an instance of this name.
insert into atlas.server_instances (id, tenant_id, host_id, name)
select :id, h.tenant_id, h.id, :name
from atlas.hosts h
where h.id = :host_id
on conflict (tenant_id, name) do nothing
returning id, tenant_id, host_id, name, created_at;
