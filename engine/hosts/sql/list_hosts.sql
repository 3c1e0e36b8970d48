-- The hosts of one tenant, or of all (operators), with the names of their server instances; oldest first by their ids.
select h.id, h.tenant_id, h.name, h.is_active, h.last_seen_at, h.created_at,
  array(select s.name from atlas.server_instances s where s.host_id = h.id order by s.name) as instances
from atlas.hosts h
where (:tenant_id::uuid is null or h.tenant_id = :tenant_id)
  and (:id::uuid is null or h.id = :id)
  and (:after::uuid is null or h.id > :after)
order by h.id
limit :limit::bigint;
