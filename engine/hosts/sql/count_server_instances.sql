-- The server instances of a host. Called by engine/quotas.py.
select count(*)::int
from atlas.server_instances
where host_id = :of::text::uuid;
