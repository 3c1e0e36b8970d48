-- The roles of row-level security: which are there, and which the login may act as. SQL, because it reads the catalogs.
select
  required.name,
  r.oid is not null as is_there,
  coalesce(pg_has_role(current_user, r.oid, 'member'), false) as is_usable
from unnest(:names::text[]) with ordinality required (name, nth)
left join pg_roles r on r.rolname = required.name
order by required.nth;
