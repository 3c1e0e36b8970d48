-- Stores personal values of one tenant, in the transaction that writes the audit row which commits to them: objects
-- {commitment, field, salt, value, entity_id?}, bytes in hex. entity_id is that row's own, or null: under another one a value is
-- not found again, and verification reports it.
create or replace function store_personal_data(p_tenant uuid, p_rows jsonb) returns void language sql
set search_path from current as $$
  insert into audit_private (commitment, tenant_id, entity_id, field, salt, value)
  select decode(r.commitment, 'hex'), p_tenant, r.entity_id, r.field, decode(r.salt, 'hex'), r.value
  from jsonb_to_recordset(p_rows) r(commitment text, field text, salt text, value text, entity_id text)
$$;
