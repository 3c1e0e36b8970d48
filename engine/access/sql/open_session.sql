-- A new session, or a link to open one with, valid for some seconds from now. Called by engine/access/sessions.py. SQL, because it writes the database's clock.
insert into atlas.sessions (id, token_id, hash, expires_at, is_link, ip_commitment, browser)
values (:id, :token_id, :hash, clock_timestamp() + :seconds::float8 * interval '1 second', :is_link, :ip_commitment, :browser)
returning id, created_at, expires_at;
