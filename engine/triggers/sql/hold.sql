-- Locks one trigger until the end of the transaction; its row is read afterwards. Without a tenant it looks across all (operators).
-- Called by engine/triggers/store.py. SQL, because Prisma has no row locks.
select id
from atlas.job_triggers
where id = :id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and deleted_at is null
for update;
