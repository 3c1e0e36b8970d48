-- The tokens of one tenant, or of all (with :tenant_id null) for operators, oldest first by their time-ordered ids.
select id, prefix, subject, role, tenant_id, scopes, created_at, expires_at, last_used_at, revoked_at
from atlas.api_tokens
where (:tenant_id::uuid is null or tenant_id = :tenant_id::uuid)
  and (:after::uuid is null or id > :after)
order by id
limit :limit::bigint;
