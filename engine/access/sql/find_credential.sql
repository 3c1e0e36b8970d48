-- One token by its prefix, with its hash, whether it is valid now and for how long. It reads across tenants: the token says which tenant.
-- Called by engine/access/tokens.py for the credential of a request. SQL, because it is valid or not by the database's clock.
select id, prefix, subject, role, tenant_id, scopes, created_at, expires_at, last_used_at, revoked_at, created_by, hash,
  revoked_at is null and (expires_at is null or expires_at > clock_timestamp()) as is_good,
  coalesce(extract(epoch from expires_at - clock_timestamp())::float8, 'infinity') as seconds_left
from atlas.api_tokens
where prefix = :prefix;
