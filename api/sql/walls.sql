-- Whether this login may act as a tenant, and whether the tables are behind the wall.
select pg_has_role(session_user, oid, 'member')
  and (select relrowsecurity and relforcerowsecurity from pg_class where oid = 'jobs'::regclass)
from pg_roles
where rolname = 'atlas_tenant';
