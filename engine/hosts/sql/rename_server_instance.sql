-- Another name. A name that the tenant has already violates the unique index. Called by engine/hosts/server_instances.py.
update atlas.server_instances
set name = :name,
    updated_at = clock_timestamp()
where id = :id;
