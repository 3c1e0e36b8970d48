-- How many more connections this login may open now: by the server's limit, less what it reserves for others, by the login's own limit and
-- by the database's. Superusers have neither of the last two. SQL, because it reads the server's settings and sessions. Called by
-- atlas/db/operator_connections.py.
select least(
    current_setting('max_connections')::int
      - case when r.rolsuper then 0
             else current_setting('superuser_reserved_connections')::int + coalesce(current_setting('reserved_connections', true), '0')::int end
      -- Of other logins' sessions little more is shown than to which database they belong.
      - (select count(*) from pg_stat_activity a where a.datid is not null and a.usesysid is not null),
    case when r.rolconnlimit >= 0 and not r.rolsuper
         then r.rolconnlimit - (select count(*) from pg_stat_activity a where a.usesysid = r.oid) end,
    case when d.datconnlimit >= 0 and not r.rolsuper
         then d.datconnlimit - (select count(*) from pg_stat_activity a where a.datid = d.oid) end
  )::int as free
from pg_roles r, pg_database d
where r.rolname = session_user and d.datname = current_database();
