-- Whether this login may act as a tenant, and whether row-level security is forced on the tables. SQL, because it reads the
-- catalogs.
select pg_has_role(session_user, oid, 'member')
  and (select relrowsecurity and relforcerowsecurity from pg_class where oid = 'atlas.jobs'::regclass)
from pg_roles
where rolname = 'atlas_tenant';
