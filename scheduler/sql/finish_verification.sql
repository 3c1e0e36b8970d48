-- Stores the verdict on the audit log, for alerts and metrics, and ends the lease. One that could not be verified is due again sooner. Called by
-- scheduler/audit_tasks.py. SQL, because it is on the database's clock.
update atlas.system_state
set value = (value - 'leased_until'::text) || :value::text::jsonb
      || case :value::text::jsonb->>'status'
           when 'whole' then jsonb_build_object('verified_at', clock_timestamp())
           when 'failed' then jsonb_build_object('began_at', clock_timestamp() - :sooner::interval)
           else '{}'::jsonb end,
    updated_at = clock_timestamp(),
    updated_by = :by
where key = 'audit_verification'
  and updated_by = :by;
