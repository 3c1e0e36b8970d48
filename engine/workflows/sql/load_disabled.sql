-- Those of the wanted workflows that someone has disabled.
select u.tenant_id, u.key
from unnest(:tenants::uuid[], :keys::text[]) u(tenant_id, key)
where exists (select from workflows w where w.key = u.key and (w.tenant_id = u.tenant_id or w.tenant_id is null))
  and not exists (
    select from workflows w where w.key = u.key and (w.tenant_id = u.tenant_id or w.tenant_id is null) and w.is_enabled);
