-- Back online by itself, as `offline --for` asked. Does nothing unless that time has come.
-- Locks: gate. Called by engine/jobs/switches/gate.py.
create or replace function expire_gate() returns boolean language plpgsql volatile
set search_path from current as $$
begin
  if not exists (select from system_state where key = 'atlas_online' and value->>'online' = 'false'
                 and (value->>'until')::timestamptz <= clock_timestamp()) then
    return false;
  end if;
  if not pg_try_advisory_xact_lock(lock_class('gate'), 0) then
    return false;
  end if;
  -- Looked at again under the lock: an operator may have turned it meanwhile.
  if not exists (select from system_state where key = 'atlas_online' and value->>'online' = 'false'
                 and (value->>'until')::timestamptz <= clock_timestamp()) then
    return false;
  end if;
  perform switch_gate(true, 'the time it was taken offline for is over', null, 'system', 'watchdog', '{}');
  return true;
end $$;
