-- The triggers on events of these names that are not paused, in the order of their ids. Not locked: fire_triggers fires those that are still so.
-- Looks across tenants: the caller pairs each with its own tenant's events.
-- Called by engine/triggers/fire_events.py. SQL, because of the pauses, which no relation joins.
select t.id, t.tenant_id, t.label, t.is_enabled, t.trigger_type::text as trigger_type, t.event_name, t.cron_expr, t.timezone,
  t.definition_key, t.job_type, t.workflow, t.payload_template, t.dedupe_window_seconds, t.misfire::text as misfire,
  coalesce(t.timezone, n.timezone) as zone, t.last_fire_at, t.next_fire_at, t.last_error, t.created_by, t.edited_by, t.created_at, t.updated_at,
  coalesce(t.active_since, t.created_at) as active_since
from atlas.job_triggers t
join atlas.tenants n on n.id = t.tenant_id
where t.trigger_type = 'event'
  and t.event_name = any (:names)
  and t.tenant_id = any (:tenants)
  and t.is_enabled
  and not exists (
    select from atlas.pauses p
    where p.kind = 'trigger' and p.target = t.id::text and (p.until is null or p.until > clock_timestamp()))
order by t.id;
