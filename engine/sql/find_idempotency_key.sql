-- The response to the call that has the key.
select request_hash, status, body
from atlas.idempotency_keys
where tenant_id = :tenant_id
  and subject = :subject
  and key = :key;
