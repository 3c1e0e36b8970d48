-- Record that a session was used, at most once a minute: a busy page must not write with every request.
-- Called by engine/access/sessions.py. SQL, because the guard is on the database's clock.
update atlas.sessions
set last_seen_at = clock_timestamp()
where id = :id
  and last_seen_at < clock_timestamp() - interval '1 minute';
