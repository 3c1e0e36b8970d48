-- Who else holds the gate's lock: the claims in flight. SQL, because it reads the catalogs.
select a.pid, a.application_name, a.state
from pg_locks l
join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory'
  and l.classid = (atlas.lock_class('gate')::bigint & 4294967295)::oid
  and l.granted
  and l.database = (select oid from pg_database where datname = current_database())
  and a.pid <> pg_backend_pid();
