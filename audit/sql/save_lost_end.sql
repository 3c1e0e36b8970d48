-- Stores what the audit log lacks of what was signed, for every process to read. Writes nothing if it is stored already. Called by
-- audit/lost_end.py. SQL, because it writes only what has changed, on the database's clock.
insert into atlas.system_state as s (key, value, updated_by)
values ('audit_lost_end', :value::text::jsonb, :by)
on conflict (key) do update
set value      = excluded.value,
    updated_at = clock_timestamp(),
    updated_by = excluded.updated_by
where s.value is distinct from excluded.value;
