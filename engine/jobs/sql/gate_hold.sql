-- The gate's lock, as switch_gate takes it: its holder may read the gate and switch it, and no other switch comes between.
-- Called by engine/jobs/gate.py where a caller names the state that it has read. SQL, because Prisma has no advisory locks.
select pg_advisory_xact_lock(atlas.lock_class('gate'), 0);
