-- Let one transaction at a time add a thing of one owner, and return how many a tenant's limits allow; null where they say nothing.
-- Lock: quota. Called by engine/quotas.py before it counts, in a statement of its own: the count must see what was added
-- while this one waited.
select (select (t.limits->'quotas'->>:thing)::int from atlas.tenants t where t.id = :tenant_id)
from pg_advisory_xact_lock(atlas.lock_class('quota'), hashtext(concat_ws(' ', :thing::text, :tenant_id::uuid, :of::text)));
