-- The tenants that are being removed. Looks across tenants: a scheduler goes on with every removal. Called by engine/tenants/removal.py.
-- SQL, because every scheduler asks it, also one without the generated client.
select id
from atlas.tenants
where removing_at is not null
order by removing_at;
