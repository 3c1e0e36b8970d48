-- The transactions of other sessions that are open in this database now, by their virtual ids, and those that are prepared. Vacuum,
-- which has no user, adds nothing. Called by engine/tenants/removal.py. SQL, because it reads the catalogs.
select l.virtualtransaction as id
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid'
  and l.virtualxid = l.virtualtransaction
  and l.pid <> pg_catalog.pg_backend_pid()
  and a.datname = current_database()
  and a.usesysid is not null
union all
select 'prepared ' || p.gid
from pg_catalog.pg_prepared_xacts p
where p.database = current_database();
