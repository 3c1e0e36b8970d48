-- One server instance, held until the end of the transaction that edits or removes it: jobs that name it wait until then before
-- they are placed. Called by engine/hosts/server_instances.py.
select id, tenant_id, host_id, name, created_at
from atlas.server_instances
where id = :id
for no key update;
