-- The schedules that are due or have no next time yet, but for those that are paused and those that the caller leaves out, and when each
-- could not fire: its own outages with those of all. Not locked: fire_triggers fires those that are still so. Looks across tenants: time passes for all of them.
-- Called by engine/triggers/fire_schedules.py. SQL, because of the pauses, which no relation joins.
select t.id, t.tenant_id, t.label, t.is_enabled, t.trigger_type::text as trigger_type, t.event_name, t.cron_expr, t.timezone,
  t.definition_key, t.job_type, t.workflow, t.payload_template, t.dedupe_window_seconds, t.misfire::text as misfire,
  coalesce(t.timezone, n.timezone) as zone, t.last_fire_at, t.next_fire_at, t.last_error, t.created_by, t.edited_by, t.created_at, t.updated_at,
  t.active_since,
  -- Of a pause that is over and was not removed yet too.
  t.outages + :outages::tstzmultirange + coalesce((
    select range_agg(tstzrange(p.paused_at, p.until, '(]')) from atlas.pauses p
    where p.kind = 'trigger' and p.target = t.id::text), '{}') as outages
from atlas.job_triggers t
join atlas.tenants n on n.id = t.tenant_id
where t.trigger_type = 'schedule'
  and t.is_enabled
  and n.moving_at is null
  and not exists (
    select from atlas.pauses p
    where p.kind = 'trigger' and p.target = t.id::text and (p.until is null or p.until > clock_timestamp()))
  and coalesce(t.next_fire_at, '-infinity') <= :until
  and t.id <> all (:without::uuid[])
order by coalesce(t.next_fire_at, '-infinity')
limit :limit;
