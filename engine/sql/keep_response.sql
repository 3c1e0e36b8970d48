-- taken -> stored, in the transaction that did the work. SQL, because it is on the way of every request with a key.
update atlas.idempotency_keys
set status = :status,
    body   = :body
where tenant_id = :tenant_id
  and subject = :subject
  and key = :key;
