-- Lines of JSON -> rows of a table, of a tenant that is imported. Called by engine/tenants/move_import.py. SQL, because a function does it.
select atlas.import_rows(:tenant_id, :name, :columns::text[], :rows::text::json, :shift);
