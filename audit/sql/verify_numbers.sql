-- The running numbers that tenants had reached with a seal.
select distinct on (tenant_id) tenant_id, first_number + count - 1 as number
from audit_seal_tenant
where n <= :n
order by tenant_id, n desc;
