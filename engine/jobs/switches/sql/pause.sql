-- Pauses a target: the gate's lock, the pause's row, PAUSED, notification. SQL, because a function does it.
select id from atlas.pause_target(:kind, :target, :tenant_id, :reason, :seconds, :actor_type, :actor_id, :meta);
