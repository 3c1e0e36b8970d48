-- The rows of a table that move with a tenant, as lines of JSON. Called by engine/tenants/move_export.py. SQL, because a function does it.
select line from atlas.tenant_rows(:tenant_id, :name) line;
