-- Record that a session was used, at most once a minute: a busy page must not write with every request.
update atlas.sessions
set last_seen_at = clock_timestamp()
where id = :id
  and last_seen_at < clock_timestamp() - interval '1 minute';
