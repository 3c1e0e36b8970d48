-- nothing -> pending: the question to a second person whether old rows of the audit log may go. Bound to what is shown. The caller writes
-- APPROVAL_REQUESTED in the same transaction. Called by engine/retention/audit_prune.py. SQL, because of the hash and the database's clock.
insert into atlas.approvals (id, tenant_id, run_id, kind, step, title, detail, input_hash, requested_by, expires_at)
values (:id, :tenant_id, :run_id, 'step', :step, :title, :detail::text::jsonb, sha256(convert_to(:detail::text::jsonb::text, 'UTF8')),
  :requested_by, clock_timestamp() + :expires::interval)
returning id, input_hash, expires_at;
