-- Locks a tenant until the end of the transaction that edits it. Called by engine/tenants/tenants.py and
-- engine/tenants/removal.py. Inserts of the tenant's rows do not wait for it. SQL, because Prisma has no row locks.
select id
from atlas.tenants
where id = :id
for no key update;
