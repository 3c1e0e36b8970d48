-- The triggers that come from code. Looks across tenants: a process sets the schedules of all that its code names.
-- Called by engine/triggers/from_code.py. SQL, because workers read it when they start, and do not load the generated client.
select t.id, t.tenant_id, t.label, t.is_enabled, t.trigger_type::text as trigger_type, t.event_name, t.cron_expr, t.timezone,
  t.definition_key, t.job_type, t.workflow, t.payload_template, t.dedupe_window_seconds, t.misfire::text as misfire,
  coalesce(t.timezone, n.timezone) as zone, t.last_fire_at, t.next_fire_at, t.last_error, t.created_by, t.edited_by, t.created_at, t.updated_at,
  t.declared_by
from atlas.job_triggers t
join atlas.tenants n on n.id = t.tenant_id
where t.declared_by is not null
  and t.deleted_at is null;
