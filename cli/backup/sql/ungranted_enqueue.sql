-- The logins with grants to enqueue that are no members of the role for it on this server. Called by cli/backup/roles.py. SQL, because it reads the
-- catalog. Across tenants: a login may have grants of several.
select coalesce(array_agg(distinct g.login order by g.login), '{}')
from atlas.enqueue_grants g
where not exists (
  select from pg_roles member join pg_roles granted on granted.rolname = :role
  where member.rolname = g.login and pg_has_role(member.oid, granted.oid, 'member'));
