-- Locks a server instance until the end of the transaction that edits or removes it: jobs that name it wait until then before
-- they are placed. Called by engine/hosts/server_instances.py. SQL, because Prisma has no row locks.
select id
from atlas.server_instances
where id = :id
for no key update;
