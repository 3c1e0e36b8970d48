-- Whether what belonged to a tenant may be gone without an event of its own: the tenant's own event says that its removal began, and it is
-- being removed, or gone. An event about another tenant, or of no tenant, does not count: those who act for a tenant write its rows only.
-- Called by was_removed.
create or replace function is_removed(p_tenant uuid) returns boolean language sql stable
set search_path from current as $$
  select exists (
      select from audit_log b
      where b.entity_id = p_tenant::text and b.tenant_id = p_tenant and b.entity_type = 'tenant' and b.action = 'TENANT_REMOVAL_BEGAN')
    and not exists (select from tenants t where t.id = p_tenant and t.removing_at is null)
$$;
