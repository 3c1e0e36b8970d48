-- Whether what belonged to a tenant at a time may be gone without an event of its own: the tenant is being removed or gone, or it was removed
-- after that time and came back from another installation, whose audit log it brought along. Only the engine's role keeps such a log.
-- Called by audit/verification/sql/crosscheck_state.sql, audit/verification/sql/crosscheck_requests.sql and audit/verification/sql/crosscheck_recurring.sql.
create or replace function was_removed(p_tenant uuid, p_at timestamptz) returns boolean language sql stable
set search_path from current as $$
  select is_removed(p_tenant) or (
    exists (select from audit_moved m where m.tenant_id = p_tenant)
    and exists (
      select from audit_log b
      where b.entity_id = p_tenant::text and b.tenant_id = p_tenant and b.entity_type = 'tenant' and b.action = 'TENANT_REMOVED'
        and b.created_at > p_at))
$$;
