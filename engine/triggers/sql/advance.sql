-- The next due time of schedules, and why one could not be computed; that error is cleared when it can.
-- The caller has locked their rows. A row that was changed before that keeps what it has. SQL, because it is a batch.
update atlas.job_triggers t
set next_fire_at = u.next_fire_at,
    last_error   = coalesce(u.error, case when not t.last_error ? 'open_since' then t.last_error end)
from unnest(:ids::uuid[], :seen::timestamptz[], :nexts::timestamptz[], :errors::jsonb[]) u(id, seen, next_fire_at, error)
where t.id = u.id
  and t.next_fire_at is not distinct from u.seen
  and t.trigger_type = 'schedule'
  and t.is_enabled;
