-- The logins that were granted enqueue before grants named tenants and types, and have no grant of these since: enqueue refuses all that they
-- ask for. Roles belong to the server, and other installations on it may have logins of their own, so the audit log says which are of this one.
-- Called by cli/doctor/grants.py. SQL, because it reads the catalog. Across tenants: a login may have grants of several.
select coalesce(array_agg(member.rolname::text order by member.rolname), '{}')
from pg_roles granted
join pg_auth_members m on m.roleid = granted.oid
join pg_roles member on member.oid = m.member and member.rolcanlogin
where granted.rolname = :role
  and not exists (select from atlas.enqueue_grants g where g.login = member.rolname::text)
  and exists (
    select from atlas.audit_log a
    where a.entity_id = member.rolname::text and a.action = 'ENQUEUE_GRANTED' and a.entity_type = 'login');
