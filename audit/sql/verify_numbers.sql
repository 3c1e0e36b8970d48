-- The running numbers that tenants had reached with a seal. Forged ones must not go beyond what a number can be. SQL, because
-- it reads the last seal of every tenant in one pass.
select distinct on (tenant_id) tenant_id,
  greatest(least(first_number, 9223372036854775807 - count) + count - 1, 0) as number
from atlas.audit_seal_tenant
where n <= :n and tenant_id is not null
order by tenant_id, n desc;
