-- One session, or link, that is valid now, with its token, and for how long both are. It reads across tenants: the session says which tenant.
-- Called by engine/access/sessions.py. SQL, because it is valid or not by the database's clock.
select s.id as session_id, s.created_at as session_created_at, s.expires_at as session_expires_at,
  extract(epoch from least(s.expires_at, t.expires_at) - clock_timestamp())::float8 as seconds_left,
  t.id, t.prefix, t.subject, t.role, t.tenant_id, t.scopes, t.created_at, t.expires_at, t.last_used_at, t.revoked_at, t.created_by
from atlas.sessions s
join atlas.api_tokens t on t.id = s.token_id
where s.hash = :hash
  and s.is_link = :is_link
  and s.ended_at is null
  and s.expires_at > clock_timestamp()
  and t.revoked_at is null
  and (t.expires_at is null or t.expires_at > clock_timestamp());
