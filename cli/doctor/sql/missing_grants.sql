-- How many grants and owners are missing where the roles were created after the tables. The tables of the audit log are granted
-- column by column, and the programs write only its rows. Tables of history are granted to nobody: they are read through their parents. SQL, because it reads the catalogs.
select count(*)
from pg_class c
join pg_roles r on r.rolname = :engine_role
where c.relnamespace = to_regnamespace(:schema)
  and c.relname !~ '^_prisma'
  -- Written by functions of the owner, or only added to.
  and c.relname not in ('worker_keys', 'history_bounds', 'history_changes', 'history_contents')
  and not exists (select from pg_inherits i where i.inhrelid = c.oid)
  and case
    when c.relname = 'audit_log' then
      not has_column_privilege(r.oid, c.oid, 'body', 'insert') or pg_get_userbyid(c.relowner) <> :owner_role::text
    when c.relkind = 'v' then not has_table_privilege(r.oid, c.oid, 'select')
    when c.relkind in ('r', 'p') and c.relname !~ '^audit_' then
      not (has_table_privilege(r.oid, c.oid, 'select') and has_table_privilege(r.oid, c.oid, 'insert')
        and has_table_privilege(r.oid, c.oid, 'update') and has_table_privilege(r.oid, c.oid, 'delete'))
    else false
  end;
