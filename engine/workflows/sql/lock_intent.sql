-- Holds the intent behind an approval: intents are locked before their approvals, as when one is withdrawn.
-- SQL, because Prisma has no row locks.
select i.id
from atlas.intents i
where i.id = (select a.run_id from atlas.approvals a where a.id = :approval_id and a.kind = 'intent')
for update;
