-- One sealer at a time, for this transaction; one that does not get the lock has nothing to do. A statement of its own, so
-- that the next one sees what the last holder committed. SQL, because Prisma has no advisory locks.
select pg_try_advisory_xact_lock(atlas.lock_class('seal'), 0);
