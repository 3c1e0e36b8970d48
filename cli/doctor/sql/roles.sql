-- The roles of row-level security: which are there, and which the login may act as. SQL, because it reads the catalogs.
select
  wanted.name,
  r.oid is not null as is_there,
  coalesce(pg_has_role(current_user, r.oid, 'member'), false) as is_usable
from unnest(:names::text[]) with ordinality wanted (name, nth)
left join pg_roles r on r.rolname = wanted.name
order by wanted.nth;
