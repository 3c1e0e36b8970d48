-- Webhooks, oldest first, or one of them. Without a tenant it looks across all (operators). Called by engine/webhooks/store.py.
select id, tenant_id, url, events, description, is_enabled, disabled_reason, failing_since, last_error, created_by, created_at, updated_at
from atlas.webhooks
where (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:id::uuid is null or id = :id)
  and (:after::uuid is null or id > :after)
order by id
limit :limit;
