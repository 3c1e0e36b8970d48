-- open -> ended. Returns no row where it had ended before, so that the event is written once.
-- Called by engine/access/sessions.py. SQL, because it writes the database's clock.
update atlas.sessions
set ended_at = clock_timestamp()
where id = :id
  and ended_at is null
returning true;
