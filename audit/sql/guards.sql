-- What guards the audit log, and the tenants from each other, as the catalogs have it: kind, of what, name, value. `atlas migrate` leaves
-- what audit/guards.json holds, and audit/guards.py compares. Of tables that are not the audit log's, columns, constraints and indexes
-- are left out: they change with every release, and guard nothing of it. Rights to some of their columns are one line.
-- Names of schemas stand before every name where the search path is pg_catalog alone. SQL, because it reads the catalogs, which everyone may read.
with
-- Tables of history come and go by the day; they are Atlas's while they belong to the owner of their parent, and no one else has a right to them.
history as (
  select c.oid from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  join pg_class p on p.oid = i.inhparent
  where p.relnamespace = to_regnamespace(:schema) and c.relnamespace = p.relnamespace and c.relkind = 'r' and c.relowner = p.relowner and c.relacl is null
    and p.relname !~ '^audit_' and c.relname ~ format('^%s_history_(kept|[0-9]+)_[0-9]{8}$', p.relname)
),
tables as (
  select c.oid, c.relname::text as name, c.relkind, c.relowner, c.relacl, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity,
    c.reloptions, c.relname ~ '^audit_' as is_log
  from pg_class c
  where c.relnamespace = to_regnamespace(:schema) and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and c.oid not in (select h.oid from history h)
),
roles as (
  select r.oid, r.rolname::text as name, r.rolname = :owner_role::text as is_owner, r.rolname = :engine_role::text as is_engine,
    r.rolsuper, r.rolcreaterole, r.rolcreatedb, r.rolreplication, r.rolbypassrls, r.rolcanlogin
  from pg_roles r
  where r.rolname in (:owner_role::text, :engine_role::text, :tenant_role::text)
),
-- logins of programs: those that were granted the engine's role. The login that migrates was granted the owner's too.
logins as (
  select r.oid, r.rolname::text as name, r.rolsuper, r.rolcreaterole, r.rolreplication
  from pg_roles r
  where r.rolcanlogin
    and exists (select from pg_auth_members m join roles e on e.oid = m.roleid where m.member = r.oid and e.is_engine)
    and (r.rolname = :app_login::text
      or not exists (select from pg_auth_members m join roles o on o.oid = m.roleid where m.member = r.oid and o.is_owner))
),
-- functions that run with the rights of their owner
definers as (
  select p.oid, p.proname, p.proowner, p.proacl from pg_proc p where p.pronamespace = to_regnamespace(:schema) and p.prosecdef
),
-- the rights of everyone but the owner of the table; of roles that are not Atlas's, only those that are more than reading
rights as (
  select t.name as of, coalesce(g.rolname::text, 'public') as role, g.oid, lower(a.privilege_type) || a.columns as verb, a.is_grantable
  from tables t
  cross join lateral (
    select x.grantee, x.privilege_type, '' as columns, x.is_grantable from aclexplode(t.relacl) x
    union all
    select x.grantee, x.privilege_type, format(' (%s)', c.attname), x.is_grantable
    from pg_attribute c
    cross join lateral aclexplode(c.attacl) x
    where t.is_log and c.attrelid = t.oid and not c.attisdropped
    union all
    select s.grantee, s.privilege_type, case when s.columns is null then ' (all columns)'
      when s.is_most then format(' (all but %s)', s.columns) else format(' (%s)', s.columns) end, s.is_grantable
    from (
      select g.grantee, g.privilege_type, g.is_grantable, g.is_most, string_agg(c.attname, ', ' order by c.attname) as columns
      from (
        select x.grantee, x.privilege_type, x.is_grantable, array_agg(c.attnum) as granted,
          count(*) * 2 > (select count(*) from pg_attribute o where o.attrelid = t.oid and o.attnum > 0 and not o.attisdropped) as is_most
        from pg_attribute c
        cross join lateral aclexplode(c.attacl) x
        where c.attrelid = t.oid and not c.attisdropped
        group by x.grantee, x.privilege_type, x.is_grantable
      ) g
      left join pg_attribute c on c.attrelid = t.oid and c.attnum > 0 and not c.attisdropped and (c.attnum = any (g.granted)) <> g.is_most
      group by g.grantee, g.privilege_type, g.is_grantable, g.is_most
    ) s
    where not t.is_log
  ) a
  left join pg_roles g on g.oid = a.grantee
  where a.grantee <> t.relowner
  union all
  select 'schema', coalesce(g.rolname::text, 'public'), g.oid, lower(x.privilege_type), x.is_grantable
  from pg_namespace n
  cross join lateral aclexplode(n.nspacl) x
  left join pg_roles g on g.oid = x.grantee
  where n.oid = to_regnamespace(:schema) and x.grantee <> n.nspowner
  union all
  select 'the function ' || p.proname, coalesce(g.rolname::text, 'public'), g.oid, lower(x.privilege_type), x.is_grantable
  from definers p
  cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
  left join pg_roles g on g.oid = x.grantee
  where x.grantee <> p.proowner and not (p.proname in ('enqueue', 'commit_attempt') and g.rolname is not distinct from :enqueuer_role::text)
  union all
  select 'the sequence ' || c.relname, coalesce(g.rolname::text, 'public'), g.oid, lower(x.privilege_type), x.is_grantable
  from pg_class c
  cross join lateral aclexplode(c.relacl) x
  left join pg_roles g on g.oid = x.grantee
  where c.relnamespace = to_regnamespace(:schema) and c.relkind = 'S' and c.relname ~ '^audit_' and x.grantee <> c.relowner
  union all
  -- with it a login switches off all triggers that are not `always`
  select 'the setting ' || p.parname, coalesce(g.rolname::text, 'public'), g.oid, lower(x.privilege_type), x.is_grantable
  from pg_parameter_acl p
  cross join lateral aclexplode(p.paracl) x
  left join pg_roles g on g.oid = x.grantee
  where p.parname = 'session_replication_role' and not coalesce(g.rolsuper, false)
),
-- those that may act as the owner anyway: the login that migrates, superusers
owners as (
  select r.oid from pg_roles r where pg_has_role(r.oid, (select o.oid from roles o where o.is_owner), 'member')
)
select 'table' as kind, name as of, 'persistence' as name,
  case relpersistence when 'p' then 'logged' when 'u' then 'unlogged' else relpersistence::text end as value
from tables where is_log and relkind <> 'v'
union all
select 'table', name, 'kind', relkind::text from tables where is_log
union all
select 'table', name, 'options', array_to_string(reloptions, ', ') from tables where is_log and relkind = 'v'
union all
select 'owner', name, 'owner', pg_get_userbyid(relowner)::text
from tables where name <> '_prisma_migrations' and relkind <> 'v'
union all
-- An owner drops what it owns, and whatever depends on it: the functions of triggers, types of columns, everything in the schema.
select 'owner', x.name, 'owner', pg_get_userbyid(x.owner)::text
from (
  select 'the schema' as name, n.nspowner as owner from pg_namespace n where n.oid = to_regnamespace(:schema)
  union all
  select 'the function ' || p.proname, p.proowner from pg_proc p where p.pronamespace = to_regnamespace(:schema) and not p.prosecdef
  union all
  select 'the type ' || y.typname, y.typowner from pg_type y where y.typnamespace = to_regnamespace(:schema) and y.typtype in ('e', 'd')
  union all
  select 'the view ' || t.name, t.relowner from tables t where t.relkind = 'v'
) x
where x.owner not in (select o.oid from owners o) or x.owner in (select l.oid from logins l)
union all
-- Where triggers do not run, events are not compared with what the database knows, and nothing wakes.
select 'setting', coalesce('the login ' || r.rolname, 'every login'), 'session_replication_role', 'replica'
from pg_db_role_setting s
left join pg_roles r on r.oid = s.setrole
where s.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database())) and s.setconfig @> '{session_replication_role=replica}'
union all
select 'setting', 'the server', 'session_replication_role', 'replica'
from pg_settings where name = 'session_replication_role' and source in ('configuration file', 'command line') and setting = 'replica'
union all
select 'security', name, 'row-level security',
  case when not relrowsecurity then 'off' when relforcerowsecurity then 'on, also for the owner' else 'on, but for the owner' end
from tables where relkind in ('r', 'p')
union all
select 'policy', t.name, p.polname::text, concat_ws(' ', case when p.polpermissive then 'permissive' else 'restrictive' end,
  case p.polcmd when '*' then 'all' when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' else 'delete' end, 'to',
  (select string_agg(coalesce(r.rolname::text, 'public'), ', ' order by r.rolname)
   from unnest(p.polroles) u(oid) left join pg_roles r on r.oid = u.oid
   where r.oid is null or r.oid in (select oid from roles) or r.oid not in (select oid from owners)),
  'using', coalesce(pg_get_expr(p.polqual, p.polrelid), 'nothing'), 'check', coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'nothing'))
from tables t join pg_policy p on p.polrelid = t.oid
union all
select 'trigger', t.name, g.tgname::text,
  case g.tgenabled when 'A' then 'always' when 'O' then 'enabled' when 'D' then 'disabled' else 'in replicas only' end
    || ': ' || pg_get_triggerdef(g.oid)
from tables t join pg_trigger g on g.tgrelid = t.oid and not g.tgisinternal
union all
-- Servers before 16 name the table before each column of a view.
select 'rule', t.name, w.rulename::text, regexp_replace(pg_get_ruledef(w.oid), '\maudit_log\.', '', 'g')
from tables t join pg_rewrite w on w.ev_class = t.oid
where t.relkind <> 'v' or t.is_log
union all
select 'inheritance', t.name, i.inhrelid::regclass::text, 'child'
from tables t join pg_inherits i on i.inhparent = t.oid
where i.inhrelid not in (select h.oid from history h)
union all
select 'column', t.name, a.attname::text, concat_ws(' ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
  case a.attidentity when 'a' then 'always identity' when 'd' then 'identity' end, case when a.attgenerated <> '' then 'generated' end,
  'default ' || case
    -- the newest epoch is the default of its rows
    when t.name = 'audit_log' and a.attname = 'epoch'
      and pg_get_expr(d.adbin, d.adrelid) = (select max(e.epoch)::text from atlas.audit_epoch e) then 'the newest epoch'
    else pg_get_expr(d.adbin, d.adrelid) end)
from tables t
join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
where t.is_log
union all
-- newer servers have one for each column that is not null, which the column says
select 'constraint', t.name, n.conname::text, pg_get_constraintdef(n.oid)
from tables t join pg_constraint n on n.conrelid = t.oid and n.contype <> 'n'
where t.is_log
union all
select 'index', t.name, x.indexrelid::regclass::text, case when x.indisvalid then '' else 'invalid: ' end || pg_get_indexdef(x.indexrelid)
from tables t join pg_index x on x.indrelid = t.oid
where t.is_log and (x.indisunique or x.indexprs is not null or x.indpred is not null)
union all
select 'sequence', t.name, s.seqrelid::regclass::text,
  format('from %s by %s%s', s.seqstart, s.seqincrement, case when s.seqcycle then ', again and again' end)
from tables t
join pg_depend p on p.refobjid = t.oid and p.refclassid = 'pg_class'::regclass and p.classid = 'pg_class'::regclass and p.deptype in ('a', 'i')
join pg_sequence s on s.seqrelid = p.objid
where t.is_log
union all
select 'right', r.of, r.role, r.verb || case when r.is_grantable then ' and grant it' else '' end
from rights r
where r.oid is null or r.oid in (select oid from roles where not is_owner) or (r.verb !~ '^(select|usage)' and r.oid not in (select oid from owners))
union all
select 'role', r.name, 'attributes', concat_ws(', ', case when r.rolsuper then 'superuser' end, case when r.rolcreaterole then 'createrole' end,
  case when r.rolcreatedb then 'createdb' end, case when r.rolreplication then 'replication' end,
  case when r.rolbypassrls and not r.is_engine then 'bypassrls' end, case when r.rolcanlogin and not r.is_engine then 'login' end)
from roles r
union all
select 'member', r.name, g.rolname::text, 'member'
from roles r join pg_auth_members m on m.member = r.oid join pg_roles g on g.oid = m.roleid
where not r.is_owner and g.rolname not in ('pg_monitor', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables')
union all
select 'login', l.name, x.power, 'power'
from logins l
cross join lateral (
  select 'superuser' as power where l.rolsuper
  union all
  -- servers before 16 let it grant itself any role
  select 'createrole' where l.rolcreaterole
  union all
  select 'replication' where l.rolreplication
  union all
  select 'a member of ' || g.rolname
  from pg_roles g
  where not l.rolsuper and pg_has_role(l.oid, g.oid, 'member')
    and (g.rolname in ('pg_write_all_data', 'pg_write_server_files', 'pg_execute_server_program') or g.oid in (select o.oid from roles o where o.is_owner))
) x
union all
select 'definer', 'functions', p.proname::text, case
  when p.proowner in (select oid from roles) or p.proowner not in (select oid from owners) then pg_get_userbyid(p.proowner)::text
  else 'the login that migrates' end
from definers p;
