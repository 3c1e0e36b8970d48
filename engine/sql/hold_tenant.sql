-- One tenant, held until the end of the transaction that edits it. Called by engine/tenants.py where a caller names the state
-- that it has read. Inserts of the tenant's rows do not wait for it.
select id, slug, name, timezone, limits, retention, created_at
from atlas.tenants
where id = :id
for no key update;
