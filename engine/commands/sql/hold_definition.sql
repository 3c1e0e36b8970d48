-- Locks a definition until the end of the transaction that edits it. Called by engine/commands/definitions.py. SQL, because Prisma
-- has no row locks.
select id
from atlas.job_definitions
where key = :key
for update;
