-- Makes this process the one that verifies the audit log now; no row: it is not due. It is due an interval after the last one began, or when that
-- one's lease is over: its process was lost before the verdict. The first time counts as due an interval later: a new installation has nothing to
-- verify, and programs start often. Called by scheduler/audit_tasks.py. SQL, because it is guarded on the database's clock.
with first as (
  insert into atlas.system_state (key, value, updated_by)
  values ('audit_verification', jsonb_build_object('began_at', clock_timestamp()), :by)
  on conflict (key) do nothing
)
update atlas.system_state
set value = value || jsonb_build_object('began_at', clock_timestamp(), 'leased_until', clock_timestamp() + :lease::interval),
    updated_at = clock_timestamp(),
    updated_by = :by
where key = 'audit_verification'
  and case
        when value ? 'leased_until' then (value->>'leased_until')::timestamptz <= clock_timestamp()
        else (value->>'began_at')::timestamptz <= clock_timestamp() - :every::interval
      end
returning key;
