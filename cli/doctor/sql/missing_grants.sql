-- What an administrator has to run where the roles came after the tables: what they lack, a statement a row.
-- The audit's own tables are granted column by column, and only its log is written by the engine.
select format('grant select, insert, update, delete on %I to atlas_engine;', c.relname) as statement
from pg_roles r
join pg_class c on c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
where r.rolname = 'atlas_engine'
  and c.relname !~ '^(audit_|_prisma)'
  and not (has_table_privilege(r.oid, c.oid, 'select') and has_table_privilege(r.oid, c.oid, 'insert')
    and has_table_privilege(r.oid, c.oid, 'update') and has_table_privilege(r.oid, c.oid, 'delete'))
union all
select format('grant select on %I to atlas_engine;', c.relname)
from pg_roles r
join pg_class c on c.relnamespace = current_schema()::regnamespace
where r.rolname = 'atlas_engine'
  and (c.relkind = 'v' or c.relname = 'audit_log')
  and not has_table_privilege(r.oid, c.oid, 'select')
union all
select 'grant insert (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)'
  ' on audit_log to atlas_engine;'
from pg_roles r
where r.rolname = 'atlas_engine'
  and not has_column_privilege(r.oid, to_regclass('audit_log'), 'body', 'insert')
union all
select 'alter table audit_log owner to atlas_owner;'
from pg_class c
where c.oid = to_regclass('audit_log')
  and pg_get_userbyid(c.relowner) <> 'atlas_owner'
order by 1;
