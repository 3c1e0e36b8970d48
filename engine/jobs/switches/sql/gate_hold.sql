-- The gate's lock until the end of the transaction: no claim, no switch and no end of a pause comes between.
-- Called by engine/jobs/switches/gate.py. SQL, because a function does it.
select atlas.lock_gate();
