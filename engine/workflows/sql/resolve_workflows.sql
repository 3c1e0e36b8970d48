-- The newest declared workflow of each key: the tenant's own before everyone's. Whether it may start is decided before.
-- SQL, because it is a batch.
select u.tenant_id, u.key, w.id, w.version
from unnest(:tenants::uuid[], :keys::text[]) u(tenant_id, key)
cross join lateral (
  select w.id, w.version
  from atlas.workflows w
  where w.key = u.key
    and (w.tenant_id = u.tenant_id or w.tenant_id is null)
    and w.kind = 'declared'
  order by w.tenant_id nulls last, w.version desc
  limit 1
) w;
