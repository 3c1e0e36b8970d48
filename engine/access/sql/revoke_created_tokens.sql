-- valid -> revoked, for the tokens that were created with one of these. Called by engine/access/tokens.py until it finds none: each call sees what
-- was created before the one above it was revoked. SQL, because it writes the database's clock.
update atlas.api_tokens
set revoked_at = clock_timestamp()
where made_with = any (:creators::uuid[])
  and revoked_at is null
returning id, prefix, subject, role, tenant_id, scopes, created_at, expires_at, last_used_at, revoked_at, created_by;
