-- The login that owns the schema, and therefore migrates, if it may not act as every role. Once the roles own the tables it could
-- not migrate any more. SQL, because it reads the catalogs.
select pg_get_userbyid(n.nspowner)::text
from pg_namespace n
where n.nspname = :schema
  and exists (
    select from unnest(:names::text[]) required (name)
    left join pg_roles r on r.rolname = required.name
    where r.oid is null or not pg_has_role(n.nspowner, r.oid, 'member')
  );
