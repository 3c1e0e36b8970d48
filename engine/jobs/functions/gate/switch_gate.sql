-- Switches Atlas on or off. Waits for the claims in flight (lock_gate); after the commit none is
-- granted until it is switched again. Touches no job row. `since` is when it was last switched to the other side: switching it
-- to what it is already moves neither that time nor what schedules count as missed, and changes nothing at all without a new
-- reason or time. `version` counts the switches; workers confirm a closed gate by its version.
-- Locks: gate. Called by engine/jobs/switches/gate.py and expire_gate.
create or replace function switch_gate(
  p_online boolean, p_reason text, p_for float8, p_actor_type text, p_actor_id text, p_meta jsonb
) returns jsonb language plpgsql volatile
set search_path from current as $$
declare
  state jsonb;
  prior jsonb;
  event_name text := case when p_online then 'ATLAS_ONLINE' else 'ATLAS_OFFLINE' end;
  facts jsonb;
begin
  perform lock_gate();
  select s.value into prior from system_state s where s.key = 'atlas_online';
  if prior->'online' = to_jsonb(p_online) and prior->>'since' is not null and prior->>'until' is null and p_for is null
    and (p_reason is null or p_reason = prior->>'reason')
  then
    return prior;
  end if;
  if p_online and prior->>'online' is distinct from 'true' then
    -- Due times that passed meanwhile were missed.
    perform note_outage(null, (prior->>'since')::timestamptz, clock_timestamp());
  end if;
  state := jsonb_build_object(
    'online', p_online, 'reason', p_reason, 'by', p_actor_id, 'since', clock_timestamp(),
    'until', case when p_for is not null then clock_timestamp() + p_for * interval '1 second' end);
  insert into system_state as s (key, value, updated_by)
  values ('atlas_online', state || '{"engine_enabled": true, "version": 1}', p_actor_id)
  on conflict (key) do update
    set value = s.value || state || jsonb_build_object('version', coalesce((s.value->>'version')::bigint, 0) + 1) || case
          when s.value->'online' = state->'online' and s.value->>'since' is not null
          then jsonb_build_object('since', s.value->'since') else '{}' end,
        updated_at = clock_timestamp(), updated_by = p_actor_id
  returning s.value into state;
  facts := p_meta || jsonb_strip_nulls(jsonb_build_object('since', state->'since', 'until', state->'until'))
    || case when prior is null then '{}' else jsonb_build_object('changes', value_changes(
      jsonb_build_object('online', prior->'online', 'reason', prior->'reason', 'until', prior->'until', 'by', prior->'by'), state)) end;
  perform record_event(null, p_actor_type, p_actor_id, 'info', event_name, 'system_state', 'atlas_online', coalesce(p_reason, ''), facts);
  perform pg_notify(current_schema() || '_gate', '');
  return state;
end $$;
