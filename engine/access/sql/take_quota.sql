-- Let one transaction at a time add to what one owner has of a kind, and return how many a tenant's limits allow, null where they say nothing,
-- and whether nothing can be added to the tenant: it does not exist, or is being removed or moved.
-- Lock: quota. Called by engine/access/quotas.py before it counts, in a statement of its own: the count must see what was added
-- while this one waited. SQL, because Prisma has no advisory locks.
select (t.limits->'quotas'->>:kind)::int as most, :tenant_id::uuid is not null and (t.id is null or t.removing_at is not null or t.moving_at is not null) as is_closed
from pg_advisory_xact_lock(atlas.lock_class('quota'), hashtext(concat_ws(' ', :kind::text, :tenant_id::uuid, :of::text)))
left join atlas.tenants t on t.id = :tenant_id;
