-- valid -> revoked, for ever. Returns no row where it was revoked before, so that the event is written once.
-- Called by engine/access/tokens.py. SQL, because it writes the database's clock.
update atlas.api_tokens
set revoked_at = clock_timestamp()
where id = :id
  and revoked_at is null
returning id, prefix, subject, role, tenant_id, scopes, created_at, expires_at, last_used_at, revoked_at, created_by;
