-- The next rows of a tenant that is being removed -> gone, with an audit row. Called by engine/tenants/removal.py.
-- SQL, because a function does it.
select kind, removed
from atlas.remove_tenant_rows(:tenant_id, :limit, :actor_type::text, :actor_id::text, :meta::text::jsonb);
