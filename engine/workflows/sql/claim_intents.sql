-- draft -> validating, with ENGINE_CLAIMED_INTENT; null where the gate is closed. Looks across tenants: the engine serves all.
-- SQL, because a function does it.
select atlas.claim_intents(:engine, :limit, :stuck_seconds);
