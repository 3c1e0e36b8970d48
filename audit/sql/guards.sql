-- What keeps the audit log append-only and is not as Atlas installs it: triggers that are missing, disabled or changed, and
-- triggers and rules that are not Atlas's; functions whose text is another one; rights of the programs' roles that let them change
-- or remove what was written, or choose a row's id, epoch, transaction or time. Read from the catalogs, which everyone may read.
-- SQL, because it reads the catalogs.
with
tables as (
  select name, to_regclass(:schema::text || '.' || name) as relation
  from unnest(array['audit_log', 'audit_epoch', 'audit_seal', 'audit_seal_tenant', 'audit_checkpoint', 'audit_pruned',
    'audit_moved', 'audit_private']) name
),
-- The numbers are those of pg_trigger.tgtype: before update or delete for each row, and so on.
wanted as (
  select relation, name, name || suffix as trigger, type
  from tables
  join (values ('_append_only', 27), ('_no_update', 19), ('_no_truncate', 34)) t(suffix, type)
    on suffix = '_no_truncate' or (suffix = '_no_update') = (name = 'audit_private')
),
roles as (
  select oid, rolname::text as role from pg_roles where rolname in ('atlas_engine', 'atlas_tenant')
),
rights as (
  select r.role, t.name, p.verb
  from roles r
  cross join tables t
  cross join unnest(array['update', 'delete', 'truncate', 'trigger']) p(verb)
  where has_table_privilege(r.oid, t.relation, p.verb)
     or (p.verb = 'update' and has_any_column_privilege(r.oid, t.relation, 'update'))
  union all
  select r.role, t.name, 'insert'
  from roles r
  join tables t on t.name in ('audit_epoch', 'audit_pruned') and has_any_column_privilege(r.oid, t.relation, 'insert')
  union all
  select r.role, t.name, format('insert (%s)', c.name)
  from roles r
  join tables t on t.name = 'audit_log'
  cross join unnest(array['id', 'epoch', 'xid', 'created_at']) c(name)
  where has_column_privilege(r.oid, t.relation, c.name, 'insert')
)
select 'trigger' as kind, w.trigger as name, w.name as of,
  case when t.oid is null then 'is missing' when t.tgenabled <> 'A' then 'is disabled' else 'was changed' end as problem
from wanted w
left join pg_trigger t on t.tgrelid = w.relation and t.tgname = w.trigger and not t.tgisinternal
where t.oid is null or t.tgenabled <> 'A' or t.tgtype <> w.type or t.tgqual is not null or t.tgattr <> ''
   or t.tgfoid is distinct from to_regproc('atlas.audit_is_append_only')
union all
select 'trigger', t.tgname, w.name, 'is not Atlas''s'
from tables w
join pg_trigger t on t.tgrelid = w.relation and not t.tgisinternal
where t.tgname not in (select trigger from wanted)
union all
select 'rule', r.rulename, w.name, 'is not Atlas''s'
from tables w
join pg_rewrite r on r.ev_class = w.relation
union all
select 'function', f.name, 'the audit log', case when p.oid is null then 'is missing' else 'was changed' end
from unnest(:functions::text[], :bodies::text[]) f(name, body)
left join pg_proc p on p.oid = to_regproc(:schema || '.' || f.name)
where p.oid is null or p.prosrc <> f.body or p.prolang <> (select oid from pg_language where lanname = 'plpgsql')
   or p.proconfig is distinct from array['search_path=' || :schema || ', pg_temp']
union all
select 'role', role, string_agg(distinct name, ', '), verb
from rights
group by role, verb
union all
select 'role', r.role, p.proname, 'execute'
from roles r
join pg_proc p on p.oid in (to_regproc('atlas.audit_prune'), to_regproc('atlas.audit_new_epoch'))
where has_function_privilege(r.oid, p.oid, 'execute')
union all
select 'role', r.role, o.rolname, 'owner'
from roles r
join pg_roles o on o.rolname = 'atlas_owner' and pg_has_role(r.oid, o.oid, 'member');
