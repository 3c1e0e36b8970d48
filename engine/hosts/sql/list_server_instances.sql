-- The server instances of a host, oldest first by their ids.
select id, tenant_id, host_id, name, created_at
from atlas.server_instances
where host_id = :host_id
  and (:after::uuid is null or id > :after)
order by id
limit :limit::bigint;
