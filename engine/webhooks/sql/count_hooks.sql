-- The inbound hooks of a tenant. Called by engine/quotas.py.
select count(*)::int
from atlas.inbound_hooks
where tenant_id = :tenant_id;
