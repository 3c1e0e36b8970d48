-- Where a delivery goes, for the attempt that makes it. Called by engine/webhooks/target.py.
select id, tenant_id, url, is_enabled, disabled_reason, failing_since, key_id, nonce, ciphertext
from atlas.webhooks
where id = :id
  and tenant_id = :tenant_id;
