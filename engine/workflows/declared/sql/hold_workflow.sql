-- Every version of a workflow, held until the end of the transaction: until then no other edit of it, which does the same, passes
-- this. What the newest one is, is read afterwards, in a newer snapshot. Called by engine/workflows/declared/store.py.
-- SQL, because Prisma has no row locks.
select id
from atlas.workflows
where key = :key
  and tenant_id is not distinct from :tenant_id::uuid
order by version
for no key update;
