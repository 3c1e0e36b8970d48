-- A link that is valid now -> ended: one caller opens a session with it, and no second one. It belongs to the installation, so that
-- there is no tenant to compare. Called by engine/access/sessions.py. SQL, because it is valid or not by the database's clock.
update atlas.sessions
set ended_at = clock_timestamp()
where hash = :hash
  and is_link
  and ended_at is null
  and expires_at > clock_timestamp()
returning id;
