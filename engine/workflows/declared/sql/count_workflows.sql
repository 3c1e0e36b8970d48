-- The declared workflows of a tenant, or those for all tenants. Called by engine/access/quotas.py.
-- SQL, because Prisma does not count distinct values.
select count(distinct key)::int
from atlas.workflows
where tenant_id is not distinct from :tenant_id::uuid
  and kind = 'declared';
