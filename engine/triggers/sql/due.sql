-- The schedules that are due or have no next time yet, locked until the end of the transaction. Skips those that are paused, that another
-- scheduler is firing, and those that the caller leaves out. Looks across tenants: time passes for all of them.
-- SQL, because Prisma has no row locks.
select t.id, t.tenant_id, t.label, t.is_enabled, t.trigger_type::text as trigger_type, t.event_name, t.cron_expr, t.timezone,
  t.definition_key, t.job_type, t.workflow, t.payload_template, t.dedupe_window_seconds, t.misfire::text as misfire,
  coalesce(t.timezone, n.timezone) as zone, t.last_fire_at, t.next_fire_at, t.last_error, t.created_by, t.edited_by, t.created_at, t.updated_at,
  t.active_since
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
limit :limit
for update of t skip locked;
