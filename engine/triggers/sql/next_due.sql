-- Seconds until the next schedule is due, negative when it is late; null when there is none. Paused ones do not count.
-- One whose next time is not computed yet is an hour late. Looks across tenants: time passes for all of them.
-- SQL, because it reads the database's clock.
select case when first.due = '-infinity' then -3600 else extract(epoch from first.due - atlas.schedule_clock()) end::float8
from (
  select min(coalesce(next_fire_at, '-infinity')) as due
  from atlas.job_triggers t
  where t.trigger_type = 'schedule'
    and t.is_enabled
    and t.tenant_id <> all (atlas.moving_tenants())
    and not exists (
      select from atlas.pauses p
      where p.kind = 'trigger' and p.target = t.id::text and (p.until is null or p.until > clock_timestamp()))
) first;
