-- Seconds until the next schedule is due, negative when it is late; null when there is none.
-- One whose next time is not computed yet is an hour late. Looks across tenants: time passes for all of them.
-- SQL, because it reads the database's clock.
select case when first.due = '-infinity' then -3600 else extract(epoch from first.due - atlas.schedule_clock()) end::float8
from (
  select min(coalesce(next_fire_at, '-infinity')) as due
  from atlas.job_triggers
  where trigger_type = 'schedule'
    and is_enabled
) first;
