-- active <-> not active. No row: the host is gone.
update atlas.hosts
set is_active = :is_active,
    updated_at = clock_timestamp()
where id = :id
returning id, tenant_id, name, is_active, last_seen_at, created_at;
