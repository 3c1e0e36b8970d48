-- Holds the job rows of the runs that others are forked from, in order, so that none is retried or deleted meanwhile.
-- Returns those that still exist. Looks across tenants: the engine serves them all.
select j.id
from atlas.jobs j
where j.id = any (:ids)
order by j.id
for share;
