-- taken -> stored, in the transaction that did the work.
update atlas.idempotency_keys
set status = :status,
    body   = :body
where tenant_id = :tenant_id
  and subject = :subject
  and key = :key;
