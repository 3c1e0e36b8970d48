-- To another host of its tenant, with its jobs; returns how many of those are queued. Called by engine/hosts/server_instances.py.
-- SQL, because a function moves the jobs with it, in the order of their locks.
select atlas.move_server_instance(:id, :host_id);
