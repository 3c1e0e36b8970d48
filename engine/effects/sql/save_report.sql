-- Stores the last report about a provider. SQL, because it is written on the database's clock.
insert into atlas.system_state as s (key, value, updated_by)
values (:key, :value::text::jsonb, :by)
on conflict (key) do update
set value      = excluded.value,
    updated_at = clock_timestamp(),
    updated_by = excluded.updated_by;
