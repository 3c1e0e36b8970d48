-- The running numbers that tenants have reached. SQL, because it is a batch, with one lookup a tenant.
select t.tenant_id, coalesce(s.first_number + s.count - 1, 0) as number
from unnest(:tenants::uuid[]) t(tenant_id)
left join lateral (
  select first_number, count from atlas.audit_seal_tenant b where b.tenant_id = t.tenant_id order by b.n desc limit 1
) s on true;
