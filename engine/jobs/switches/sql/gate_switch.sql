-- The gate turns: exclusive lock, new state, ATLAS_ONLINE or ATLAS_OFFLINE, notification. SQL, because a function does it.
select atlas.switch_gate(:online, :reason, :seconds, :actor_type, :actor_id, :meta);
