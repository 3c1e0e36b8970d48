-- a server instance -> nothing. The caller holds it and its jobs, of which none is queued or running.
-- Called by engine/hosts/server_instances.py.
delete from atlas.server_instances
where id = :id;
