-- Holds a tenant that is being removed until the end of a step; no row where it is gone, or another removal is at a step of it.
-- Called by engine/tenants/removal.py. SQL, because Prisma has no row locks.
select id, slug, name, moving_at is not null as is_moved
from atlas.tenants
where id = :id
  and removing_at is not null
for no key update skip locked;
