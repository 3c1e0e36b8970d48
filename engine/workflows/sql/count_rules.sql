-- The rules of policy of a tenant, or those for all tenants. Called by engine/quotas.py.
select count(*)::int
from atlas.policy_rules
where tenant_id is not distinct from :tenant_id::uuid;
