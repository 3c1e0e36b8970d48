-- Ends the pauses whose time is over; claims have ignored them since. Returns how many. Where the rows went with their tenant, the gate's row
-- says so afterwards. Locks: gate. Called by engine/jobs/switches/pauses.py.
create or replace function end_pauses() returns int language plpgsql volatile
set search_path from current as $$
declare
  over uuid[];
begin
  if not exists (select from pauses where until <= clock_timestamp())
     and not exists (
       select from system_state where key = 'atlas_online' and value ? 'pauses' and not exists (select from pauses)) then
    return 0;
  end if;
  if not pg_try_advisory_xact_lock(lock_class('gate'), 0) then
    return 0;
  end if;
  -- Looked at under the lock: someone may have paused it again meanwhile.
  over := array(select id from pauses where until <= clock_timestamp());
  perform resume_target(o.id, 'its time is over', 'system', 'watchdog', '{}') from unnest(over) o(id);
  update system_state set value = value - 'pauses'
  where key = 'atlas_online' and value ? 'pauses' and not exists (select from pauses);
  return cardinality(over);
end $$;
