-- The tokens of one tenant, or of all (with :tenant_id null) for operators.
select id, prefix, subject, role, tenant_id, scopes, created_at, expires_at, last_used_at, revoked_at
from atlas.api_tokens
where :tenant_id::uuid is null
   or tenant_id = :tenant_id::uuid
order by created_at, id;
