-- The schedules that are due within a time, and when, for the alarm. Looks across tenants: one alarm serves them all.
-- SQL, because it reads the database's clock.
select t.cron_expr, coalesce(t.timezone, n.timezone) as zone, coalesce(min(t.next_fire_at), atlas.schedule_clock()) as next_fire_at
from atlas.job_triggers t
join atlas.tenants n on n.id = t.tenant_id
where t.trigger_type = 'schedule'
  and t.is_enabled
  and coalesce(t.next_fire_at, '-infinity') <= atlas.schedule_clock() + make_interval(secs => :within)
group by 1, 2;
