-- The inbound hook behind an address, with its secret. Looks across tenants: the key alone says whose it is.
-- Called by engine/webhooks/inbound.py. SQL, because Prisma would carry the secret, which is bytes, as base64.
select id, tenant_id, key, event_name, key_id, nonce, ciphertext
from atlas.inbound_hooks
where key = :key;
