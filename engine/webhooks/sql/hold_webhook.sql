-- One webhook, locked until the end of the transaction. Without a tenant it looks across all (operators).
-- Called by engine/webhooks/store.py. SQL, because Prisma has no row locks.
select id, tenant_id, url, events, description, is_enabled, disabled_reason, failing_since, last_error, created_by, created_at, updated_at
from atlas.webhooks
where id = :id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
for update;
