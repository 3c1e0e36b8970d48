-- Holds the job rows of the runs that others are forked from, in order: nobody retries or deletes one meanwhile.
-- Answers those that are still there. Looks across tenants: the engine serves them all.
select j.id
from atlas.jobs j
where j.id = any (:ids)
order by j.id
for share;
