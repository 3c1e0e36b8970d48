-- The hosts of a tenant. Called by engine/quotas.py.
select count(*)::int
from atlas.hosts
where tenant_id = :tenant_id;
