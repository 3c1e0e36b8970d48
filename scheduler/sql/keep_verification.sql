-- Renews the lease of the verification that this process makes. Called by scheduler/audit_tasks.py. SQL, because it is on the database's clock.
update atlas.system_state
set value = value || jsonb_build_object('leased_until', clock_timestamp() + :lease::interval),
    updated_at = clock_timestamp()
where key = 'audit_verification'
  and updated_by = :by
  and value ? 'leased_until';
