-- One host, held until the end of the transaction that edits it. Called by engine/hosts/hosts.py where a caller names the state
-- that it has read.
select id, tenant_id, name, is_active, last_seen_at, created_at
from atlas.hosts
where id = :id
for no key update;
