-- Outages that ended before the first open due time -> gone: no plan needs them. Called by engine/triggers/store.py.
-- SQL, because Prisma has no ranges.
update atlas.scheduler_leader l
set outages = l.outages * tstzmultirange(tstzrange(open.first, null))
from (
  select coalesce(min(coalesce(next_fire_at, '-infinity')), atlas.schedule_clock()) as first
  from atlas.job_triggers
  where trigger_type = 'schedule'
    and is_enabled
) open
where not isempty(l.outages)
  and lower(l.outages) < open.first;
