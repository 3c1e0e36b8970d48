-- Adds a forwarder of the audit log, or changes where an existing one sends. Returns its value before, null for a new one; no row where
-- nothing changed. Called by audit/forwarding/places.py. SQL, because it inserts or updates under a condition.
with before as (
  select value from atlas.system_state where key = :key
)
insert into atlas.system_state as s (key, value, updated_by)
values (:key, :first::text::jsonb, :by)
on conflict (key) do update
set value = s.value || :about::text::jsonb,
    updated_at = clock_timestamp(),
    updated_by = :by
where not s.value @> :about::text::jsonb
returning (select value::text from before) as before;
