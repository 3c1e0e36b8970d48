-- Whether the login of the programs could disable the triggers of the audit log: as a superuser, or as an owner of its tables.
-- SQL, because it reads the catalogs.
select case
  when r.rolsuper then 'is a superuser'
  when pg_has_role(r.oid, c.relowner, 'member') then 'owns the tables' end as power
from pg_roles r
left join pg_class c on c.relname = 'audit_log' and c.relnamespace = to_regnamespace(:schema)
where r.rolname = current_user;
