-- Whether triggers may fire now, the time that decides what is due, and when nothing could fire: while Atlas was offline or no scheduler
-- led, up to now if none leads. A due time that is younger than the grace is not missed for want of a leader.
-- Called by engine/triggers/fire_schedules.py and fire_events.py. SQL, because it reads the database's clock.
select exists (select from atlas.system_state s where atlas.is_open(s)) as is_open, c.now,
  l.outages + tstzmultirange(tstzrange(least(l.expires_at, c.now - g.grace), c.now - g.grace, '(]')) as outages
from atlas.scheduler_leader l
cross join (select atlas.schedule_clock() as now) c
cross join (select make_interval(secs => :grace) as grace) g;
