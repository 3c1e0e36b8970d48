-- The sessions that are valid now, newest first by their time-ordered ids; one by its id, of a subject, or of a tenant. Sessions
-- belong to the installation: the caller says which it may see. Called by engine/access/sessions.py. SQL, because they are valid or not
-- by the database's clock.
select s.id, t.subject, t.role::text, t.tenant_id, t.id as token_id, t.prefix, s.created_at, s.last_seen_at, s.ip_commitment, s.browser,
  least(s.expires_at, t.expires_at) as expires_at
from atlas.sessions s
join atlas.api_tokens t on t.id = s.token_id
where not s.is_link
  and s.ended_at is null
  and s.expires_at > clock_timestamp()
  and t.revoked_at is null
  and (t.expires_at is null or t.expires_at > clock_timestamp())
  and (:tenant_id::uuid is null or t.tenant_id = :tenant_id)
  and (:subject::text is null or (t.subject = :subject and t.tenant_id is not distinct from :tenant_id))
  and (:id::uuid is null or s.id = :id)
  and (:before::uuid is null or s.id < :before)
order by s.id desc
limit :limit;
