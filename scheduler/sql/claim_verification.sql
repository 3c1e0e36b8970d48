-- Makes this process the one that verifies the audit log now; no row: it is not due. The first time counts as due an interval later: a new
-- installation has nothing to verify, and programs start often. Called by scheduler/audit_tasks.py. SQL, because it is guarded on the database's clock.
with first as (
  insert into atlas.system_state (key, value, updated_by)
  values ('audit_verification', jsonb_build_object('began_at', clock_timestamp()), :by)
  on conflict (key) do nothing
)
update atlas.system_state
set value = value || jsonb_build_object('began_at', clock_timestamp()),
    updated_at = clock_timestamp(),
    updated_by = :by
where key = 'audit_verification'
  and (value->>'began_at')::timestamptz <= clock_timestamp() - :every::interval
returning key;
