-- The encrypted secret of an inbound hook and the time by the database's clock. Locks the row until the end of the transaction: two rotations at the
-- same time would lose a secret. Without a tenant it looks across all (operators). Called by engine/webhooks/signing_secrets.py. SQL, because Prisma has
-- no row locks.
select id, tenant_id, key_id, nonce, ciphertext, extract(epoch from clock_timestamp())::float8 as now
from atlas.inbound_hooks
where id = :id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
for update;
