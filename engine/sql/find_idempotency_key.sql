-- The response to the call that has the key. SQL, because Prisma would carry the body, which is bytes, as base64.
select request_hash, status, body
from atlas.idempotency_keys
where tenant_id = :tenant_id
  and subject = :subject
  and key = :key;
