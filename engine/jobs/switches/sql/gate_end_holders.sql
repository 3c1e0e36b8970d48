-- Ends the sessions of Atlas's programs among these: all that this login may end, which are those of the same login, or of any with the
-- rights of pg_signal_backend. What they had begun is rolled back. The caller acts as its login. It does not wait until they are gone: the
-- next attempt at the lock does, and a session on a starved machine ends later, but it ends.
-- Returns the sessions that it signaled. Called by engine/jobs/switches/gate.py. SQL, because it reads the catalogs.
select a.pid, a.application_name, a.state
from pg_stat_activity a
join pg_roles r on r.oid = a.usesysid
where a.pid = any (:pids::int[])
  and case
    when a.application_name !~ '^atlas( |$)' then false
    when r.rolsuper and not (select s.rolsuper from pg_roles s where s.rolname = current_user) then false
    when pg_has_role(current_user, a.usesysid, 'usage') or pg_has_role(current_user, 'pg_signal_backend', 'usage')
    then pg_terminate_backend(a.pid)
    else false end;
