-- Holds the job row behind an approval: job rows are locked before approvals, as by everyone who ends or suspends a run.
-- SQL, because Prisma has no row locks.
select j.id
from only atlas.jobs j
where j.id = (select a.run_id from atlas.approvals a where a.id = :approval_id)
for update;
