-- Ends a pause: its row goes, RESUMED, notification. SQL, because a function does it.
select id from atlas.resume_target(:id, :reason, :actor_type, :actor_id, :meta);
