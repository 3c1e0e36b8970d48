-- Stores the alerts for every process to read. Writes nothing if they are unchanged. SQL, because it writes only what has
-- changed, on the database's clock.
insert into atlas.system_state as s (key, value, updated_by)
values ('watchdog', :value::text::jsonb, :by)
on conflict (key) do update
set value      = excluded.value,
    updated_at = clock_timestamp(),
    updated_by = excluded.updated_by
where s.value is distinct from excluded.value;
