-- Schedules follow their tenant's clock: when it is set to another zone, their next times are computed anew, from now on.
-- A time that has come already stays due, and its policy applies to it. Schedules that are being added by the old zone are
-- waited for: their editor holds the lock shared (engine/triggers/sql/stay.sql). Locks: timezone.
create or replace function reschedule_tenant() returns trigger language plpgsql
set search_path from current as $$
begin
  perform pg_advisory_xact_lock(lock_class('timezone'), hashtext(new.id::text));
  update job_triggers set next_fire_at = null, active_since = schedule_clock()
  where tenant_id = new.id and timezone is null and trigger_type = 'schedule' and deleted_at is null
    and (next_fire_at is null or next_fire_at > schedule_clock());
  perform pg_notify(current_schema() || '_triggers', '');
  return null;
end $$;

select secure_trigger('tenants', 'tenants_moved',
  'after update of timezone on tenants
  for each row when (old.timezone is distinct from new.timezone) execute function reschedule_tenant()');
