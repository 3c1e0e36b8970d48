-- The batches that hold rows of one tenant.
select n, first_number, count
from atlas.audit_seal_tenant
where tenant_id = :tenant_id and n > :after and n <= :last
order by n
limit 100;
