-- A new session, valid for some seconds from now. Called by engine/sessions.py. SQL, because it writes the database's clock.
insert into atlas.sessions (id, token_id, hash, expires_at)
values (:id, :token_id, :hash, clock_timestamp() + :seconds::float8 * interval '1 second')
returning id, created_at, expires_at;
