-- The logins that were granted enqueue and are no members of its role on this server. Called by cli/backup/roles.py. SQL, because it reads the
-- catalog. Across tenants: a grant is the installation's.
select coalesce(array_agg(distinct a.entity_id order by a.entity_id), '{}')
from atlas.audit_log a
where a.action = 'ENQUEUE_GRANTED'
  and not exists (
    select from pg_roles member join pg_roles granted on granted.rolname = :role
    where member.rolname = a.entity_id and pg_has_role(member.oid, granted.oid, 'member'));
