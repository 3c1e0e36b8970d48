-- A bucket that is full and unused for an hour -> removed: the next job of its rate makes another, which is full too. Looks across
-- tenants, since time passes for all. Called by engine/retention/retention.py. SQL, because the guard is on the database's clock.
delete from atlas.job_limits l
where l.release_at is null
  and l.refilled_at < clock_timestamp() - interval '1 hour'
  and l.tokens + l.per_second * extract(epoch from clock_timestamp() - l.refilled_at) >= l.burst
  and not exists (select from atlas.limit_events e where e.limit_id = l.id)
returning l.id;
