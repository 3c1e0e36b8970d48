-- The webhooks of a tenant. Called by engine/quotas.py.
select count(*)::int
from atlas.webhooks
where tenant_id = :tenant_id;
