-- The token that a credential is created with, if it is valid now; held until the transaction ends, so that a revocation at the same
-- moment comes before or after. Called by engine/access/tokens.py. SQL, because Prisma has no row locks.
select id
from atlas.api_tokens
where prefix = :prefix
  and revoked_at is null
  and (expires_at is null or expires_at > clock_timestamp())
for share;
