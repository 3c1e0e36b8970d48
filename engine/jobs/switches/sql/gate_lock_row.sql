-- The gate, for a change that depends on its state: no switch comes between, and claims go on. Locks: the gate's row.
-- Called by engine/jobs/switches/gate.py. SQL, because Prisma locks no rows.
select value from atlas.system_state where key = 'atlas_online' for update;
