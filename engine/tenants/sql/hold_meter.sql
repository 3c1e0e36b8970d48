-- Lets no meter and no count of the jobs run until the transaction ends. Lock: metering. Called by engine/tenants/removal.py in a
-- statement of its own: the next must see what the meter wrote while this one waited. SQL, because Prisma has no advisory
-- locks.
select pg_advisory_xact_lock(atlas.lock_class('metering'), 0);
