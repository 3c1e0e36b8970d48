-- Holds the job rows of the runs that others are forked from, in order, so that none is retried or deleted meanwhile.
-- Returns those that still exist. Looks across tenants: the engine serves them all. SQL, because Prisma has no row locks.
select j.id
from atlas.jobs j
where j.id = any (:ids)
order by j.id
for share;
