-- Those of the given workflows that someone has disabled: the newest of a key says so, the tenant's own before everyone's.
-- SQL, because it is a batch.
select u.tenant_id, u.key
from unnest(:tenants::uuid[], :keys::text[]) u(tenant_id, key)
cross join lateral (
  select w.is_enabled
  from atlas.workflows w
  where w.key = u.key
    and (w.tenant_id = u.tenant_id or w.tenant_id is null)
  order by w.tenant_id nulls last, w.version desc
  limit 1
) w
where not w.is_enabled;
