-- The gate's lock until the end of the transaction: no claim and no end of a pause comes between. Called by engine/tenant_move.py.
-- SQL, because a function does it.
select atlas.lock_gate();
