-- The server instances of a host.
select id, tenant_id, host_id, name, created_at
from atlas.server_instances
where host_id = :host_id
order by name;
