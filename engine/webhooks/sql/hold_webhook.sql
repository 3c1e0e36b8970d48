-- Locks one webhook until the end of the transaction. Without a tenant it looks across all (operators).
-- Called by engine/webhooks/store.py. SQL, because Prisma has no row locks.
select id
from atlas.webhooks
where id = :id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
for update;
