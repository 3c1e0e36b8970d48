-- Locks a host until the end of the transaction that edits it. Called by engine/hosts/hosts.py where a caller names the state
-- that it has read. SQL, because Prisma has no row locks.
select id
from atlas.hosts
where id = :id
for no key update;
