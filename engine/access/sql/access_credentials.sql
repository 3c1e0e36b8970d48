-- Who could do what in a month: tokens, sessions, links, grants to logins of other applications and, for the whole installation, database
-- logins with a role of Atlas. Of a tenant, or across all (operators and auditors). Sessions are deleted some time after they ended, and grants
-- when they are revoked: the events of revoking say what there was. Called by engine/access/access_report.py. SQL, because it reads the catalogs.
with credentials as (
  select 'token' as kind, t.id::text as id, t.subject, t.role::text as role, t.tenant_id, nullif(t.scopes::text, '{}') as scope,
    t.created_at, t.created_by, least(t.expires_at, t.revoked_at) as ends_at, t.last_used_at
  from atlas.api_tokens t
  union all
  select case when s.is_link then 'link' else 'session' end, s.id::text, t.subject, t.role::text, t.tenant_id, null,
    s.created_at, t.subject, least(s.expires_at, s.ended_at, t.expires_at, t.revoked_at), s.last_seen_at
  from atlas.sessions s
  join atlas.api_tokens t on t.id = s.token_id
  union all
  select 'grant', g.id::text, 'db:' || g.login, 'enqueue', g.tenant_id, g.job_type, g.created_at, g.created_by, null, null
  from atlas.enqueue_grants g
  union all
  select 'grant', a.entity_id, 'db:' || (a.meta->>'login'), 'enqueue', a.tenant_id, a.meta->>'job_type', null, null, a.created_at, null
  from atlas.audit_log a
  where a.action = 'ENQUEUE_REVOKED'
    and a.id > :after
    and a.created_at >= :begins_at::timestamptz
  union all
  select 'login', member.rolname::text, 'db:' || member.rolname, granted.rolname::text, null, null, null, null, null, null
  from pg_auth_members m
  join pg_roles granted on granted.oid = m.roleid and granted.rolname = any (:roles::text[])
  join pg_roles member on member.oid = m.member and member.rolcanlogin
  where :tenant_id::uuid is null
  union all
  select 'login', r.rolname::text, 'db:' || r.rolname, 'superuser', null, null, null, null, null, null
  from pg_roles r
  where r.rolsuper and r.rolcanlogin and :tenant_id is null
)
select c.*
from credentials c
where coalesce(c.created_at, '-infinity') < :ends_at::timestamptz
  and coalesce(c.ends_at, 'infinity') >= :begins_at
  and (:tenant_id is null or c.tenant_id = :tenant_id)
order by c.kind, c.subject, c.created_at, c.id
limit :limit;
