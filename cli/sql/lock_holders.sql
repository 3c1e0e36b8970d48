-- Which open transactions hold locks on Atlas's tables, and advisory locks of this database: the strongest and oldest first. For the
-- error of a command that waited too long for a lock. It looks across tenants, since a lock belongs to no tenant. SQL, because
-- it reads the catalogs.
select a.pid, coalesce(nullif(a.application_name, ''), 'a client') as application, a.usename as login, a.state,
  coalesce(c.relname, 'an advisory lock') as held, l.mode
from pg_locks l
join pg_stat_activity a on a.pid = l.pid
left join pg_class c on c.oid = l.relation
where l.granted
  and a.pid <> pg_backend_pid()
  and a.xact_start is not null
  and l.database = (select oid from pg_database where datname = current_database())
  and (l.locktype = 'advisory' or c.relnamespace = :schema::regnamespace and c.relkind in ('r', 'p') and l.mode <> 'AccessShareLock')
order by l.mode = 'AccessExclusiveLock' desc, l.mode = 'ExclusiveLock' desc, a.xact_start, a.pid
limit 1;
