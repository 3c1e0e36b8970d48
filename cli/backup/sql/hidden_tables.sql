-- Tables of which the login of this connection may not see all rows: a dump as this login would lack them without a word. Called by
-- cli/backup/make.py. SQL, because it reads the system catalogs.
select c.relname::text as name
from pg_class c
where c.relnamespace = to_regnamespace(:schema)
  and c.relkind = 'r'
  and row_security_active(c.oid)
  and not (
    exists (
      select from pg_policy p
      where p.polrelid = c.oid and p.polpermissive and p.polcmd in ('*', 'r') and pg_get_expr(p.polqual, c.oid) = 'true'
        and exists (select from unnest(p.polroles) r where r = 0 or pg_has_role(r, 'usage')))
    and not exists (
      select from pg_policy p
      where p.polrelid = c.oid and not p.polpermissive and p.polcmd in ('*', 'r') and pg_get_expr(p.polqual, c.oid) <> 'true'
        and exists (select from unnest(p.polroles) r where r = 0 or pg_has_role(r, 'usage'))))
order by 1;
