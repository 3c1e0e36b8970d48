-- A tenant's name, time zone, limits and retention as they shall be. No row comes back where it is gone.
update tenants
set name       = :name,
    timezone   = :timezone,
    limits     = :limits::text::jsonb,
    retention  = :retention::text::jsonb,
    updated_at = clock_timestamp()
where id = :id
returning id, slug, name, timezone, limits, retention, created_at;
