-- Inbound hooks, oldest first, or one of them. Without a tenant it looks across all (operators). Called by engine/webhooks/inbound.py.
select id, tenant_id, key, event_name, description, created_by, created_at
from atlas.inbound_hooks
where (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:id::uuid is null or id = :id)
  and (:after::uuid is null or id > :after)
order by id
limit :limit;
