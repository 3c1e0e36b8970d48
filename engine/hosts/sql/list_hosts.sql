-- The hosts of one tenant, or of all (operators), with the names of their server instances.
select h.id, h.tenant_id, h.name, h.is_active, h.last_seen_at, h.created_at,
  array(select s.name from atlas.server_instances s where s.host_id = h.id order by s.name) as instances
from atlas.hosts h
where :tenant_id::uuid is null or h.tenant_id = :tenant_id
order by h.tenant_id, h.name;
