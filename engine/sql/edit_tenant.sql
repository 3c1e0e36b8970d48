-- A tenant's name, time zone, limits and retention as they shall be; what is null stays as it is in the row at this moment,
-- which another may have changed since it was read. No row comes back where it is gone.
update atlas.tenants
set name       = coalesce(:name::text, name),
    timezone   = coalesce(:timezone::text, timezone),
    limits     = coalesce(:limits::text::jsonb, limits),
    retention  = coalesce(:retention::text::jsonb, retention),
    updated_at = clock_timestamp()
where id = :id
returning id, slug, name, timezone, limits, retention, created_at;
