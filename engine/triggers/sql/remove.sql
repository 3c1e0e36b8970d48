-- a trigger -> deleted: it no longer fires and is no longer shown. What it fired still names it.
-- SQL, because its times are on the database's clock.
update atlas.job_triggers
set deleted_at   = clock_timestamp(),
    is_enabled   = false,
    next_fire_at = null,
    updated_at   = clock_timestamp()
where id = :id
  and deleted_at is null
returning id;
