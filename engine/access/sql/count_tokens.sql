-- The tokens of a tenant that are valid now. Called by engine/access/quotas.py. SQL, because they expire by the database's clock.
select count(*)::int
from atlas.api_tokens
where tenant_id = :tenant_id
  and revoked_at is null
  and (expires_at is null or expires_at > clock_timestamp());
