-- Locks a host until the end of the transaction that edits or removes it: jobs that name it wait until then before they are
-- placed. Called by engine/hosts/hosts.py. SQL, because Prisma has no row locks.
select id
from atlas.hosts
where id = :id
for update;
