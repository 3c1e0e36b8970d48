-- Acts as another role until the transaction ends, or as the login itself: with `none`, and where it may not act as that role. Returns the
-- role from before. Called by engine/jobs/switches/gate.py. SQL, because Prisma knows no roles.
with before as materialized (select current_setting('role') as role)
select b.role
from before b
cross join lateral set_config('role', case
  when exists (select from pg_roles r where r.rolname = :role::text and pg_has_role(session_user, r.oid, 'member')) then :role::text
  else 'none' end, true) as now;
