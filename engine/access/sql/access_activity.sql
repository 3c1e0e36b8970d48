-- Who did what in a month, by the audit log: the number of rows by actor, action and tenant. Of a tenant, or across all. It reads the log
-- of the tenant, or of all, from the month on: `after` is an id before it. Called by engine/access/access_report.py. SQL, because it counts.
select a.actor_type::text, a.actor_id, a.tenant_id, a.action, count(*) as count, max(a.created_at) as last_at
from atlas.audit_log a
where a.id > :after
  and a.created_at >= :begins_at::timestamptz
  and a.created_at < :ends_at::timestamptz
  and (:tenant_id::uuid is null or a.tenant_id = :tenant_id)
group by a.actor_type, a.actor_id, a.tenant_id, a.action
order by count desc, a.actor_id, a.action
limit :limit;
