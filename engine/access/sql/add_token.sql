-- A new token, of which only the hash is kept.
-- Returns no row where the prefix is taken, or where the token would have expired already. Called by engine/access/tokens.py.
-- SQL, because the guard is on the database's clock.
insert into atlas.api_tokens (id, prefix, hash, subject, role, tenant_id, scopes, expires_at, made_with, created_by)
select :id, :prefix, :hash, :subject, :role::text::atlas.api_role, :tenant_id::uuid, :scopes::text::jsonb, :expires_at::timestamptz,
  (select m.id from atlas.api_tokens m where m.prefix = :maker), :created_by
where :expires_at::timestamptz is null
   or :expires_at::timestamptz > clock_timestamp()
on conflict (prefix) do nothing
returning id, prefix, subject, role, tenant_id, scopes, created_at, expires_at, last_used_at, revoked_at, created_by;
