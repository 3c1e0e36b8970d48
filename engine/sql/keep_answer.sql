-- taken -> answered, in the transaction that did the work.
update idempotency_keys
set status = :status,
    body   = :body
where tenant_id = :tenant_id
  and subject = :subject
  and key = :key;
