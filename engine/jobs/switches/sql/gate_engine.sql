-- The engine's own switch, in the gate's row: ENGINE_ENABLED or ENGINE_DISABLED. Changes nothing, and returns nothing, if it is so
-- already or if there is no gate yet. Leaves updated_at alone, which is when the gate was switched.
-- Looks across tenants: the engine serves them all. Called by engine/jobs/switches/gate.py. SQL, because it writes to two tables in one
-- statement.
with switched as (
  update atlas.system_state
  set value = value || jsonb_build_object(
    'engine_enabled', :enabled::boolean, 'engine_reason', :reason::text, 'engine_by', :actor_id::text,
    'engine_since', clock_timestamp())
  where key = 'atlas_online'
    and (value->>'engine_enabled' is distinct from 'false') is distinct from :enabled::boolean
  returning value),
event as (
  select case when :enabled::boolean then 'ENGINE_ENABLED' else 'ENGINE_DISABLED' end as action,
    coalesce(:reason::text, '') as message, :meta::jsonb
      || jsonb_build_object('changes', jsonb_build_object('engine_enabled', jsonb_build_object('before', not :enabled::boolean, 'after', :enabled::boolean))) as meta
  from switched),
recorded as (
  insert into atlas.audit_log (actor_type, actor_id, action, entity_type, entity_id, message, meta, body)
  select :actor_type::atlas.actor_type, :actor_id::text, e.action, 'system_state', 'engine_enabled', e.message, e.meta,
    atlas.audit_body(
      null, :actor_type::text, :actor_id::text, 'info', e.action, 'system_state', 'engine_enabled', e.message, e.meta)
  from event e)
select value from switched;
