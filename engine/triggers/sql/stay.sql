-- Locks a tenant's zone against changes until the end of the transaction, and waits for a change in progress. It is a lock
-- of its own, since a tenant's requests may not lock the row, and a statement of its own, so that the next one sees the change.
-- SQL, because Prisma has no advisory locks.
select pg_advisory_xact_lock_shared(atlas.lock_class('timezone'), hashtext(:tenant_id::uuid::text));
