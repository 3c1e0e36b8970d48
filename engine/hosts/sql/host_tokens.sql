-- The tokens of a host that were not revoked. Called by engine/hosts/hosts.py. SQL, because the host is within a JSON column.
select id
from atlas.api_tokens
where tenant_id = :tenant_id
  and role = 'host'
  and scopes->>'host_id' = :host_id
  and revoked_at is null;
