-- The next time of schedules that were looked at. The caller holds their rows; what changed since it looked stays as it is.
update job_triggers t
set next_fire_at = u.next_fire_at
from unnest(:ids::uuid[], :seen::timestamptz[], :nexts::timestamptz[]) u(id, seen, next_fire_at)
where t.id = u.id
  and t.next_fire_at is not distinct from u.seen
  and t.trigger_type = 'schedule'
  and t.is_enabled;
