-- Store the progress of a verification; the twenty newest are kept. They belong to the installation. SQL, because it writes and
-- deletes in one statement.
with kept as (
  insert into atlas.system_state (key, value, updated_by)
  values (:key, :value::text::jsonb, :by)
  on conflict (key) do update
    set value = excluded.value, updated_at = clock_timestamp()
)
delete from atlas.system_state
where key in (select key from atlas.system_state where key like 'verification:%' order by key desc offset 20);
