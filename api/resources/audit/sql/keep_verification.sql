-- Store the progress of a verification; the newest ones of the whole log, or of a tenant, are kept. Their keys begin with :kind and end
-- with a time-ordered id. Called by api/resources/audit/verifications.py. SQL, because it writes and deletes in one statement.
with kept as (
  insert into atlas.system_state (key, value, updated_by)
  values (:key, :value::text::jsonb, :by)
  on conflict (key) do update
    set value = excluded.value, updated_at = clock_timestamp()
)
delete from atlas.system_state
where key in (select key from atlas.system_state where starts_with(key, :kind) order by key desc offset :most::int);
