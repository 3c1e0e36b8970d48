-- A tenant's ages -> new ages, as a whole.
update tenants
set retention  = :days::text::jsonb,
    updated_at = clock_timestamp()
where id = :tenant_id
returning id;
