-- Events over HTTP whose token cannot have made them: there is no such token, it has another subject, belongs to another tenant, or was not
-- valid at that time. Among the newest rows of the log. A trigger compares the token and the subject of events that are not a job's when they are
-- written; with its time, and those of jobs, only this compares them.
-- A token stays valid for a minute here: API processes cache it for seconds, and a request may have begun before. Steps of a bulk action, verdicts,
-- exports and removals of tenants come at the end of what a token has begun, and counts of refused calls up to a minute later. Workers' own events may have any meta.
-- Across tenants: the whole installation is compared. SQL, because it compares tables that no relation connects.
with newest as (
  select id, tenant_id, actor_type, actor_id, action, entity_type, meta, created_at
  from atlas.audit_log
  order by epoch desc, xid desc, id desc
  limit :limit
)
select n.id, n.action, n.actor_id, n.meta->>'token' as prefix, w.what
from newest n
left join atlas.api_tokens t on t.prefix = n.meta->>'token'
cross join lateral (
  select case
    when t.id is null then 'unknown'
    when n.actor_id not in (t.subject, 'remote:' || t.id) then 'subject'
    when t.tenant_id <> n.tenant_id then 'tenant'
    when n.created_at < t.created_at
      or (n.created_at > least(t.revoked_at, t.expires_at) + interval '1 minute'
        and n.action not in ('BULK_ACTION_ENDED', 'AUDIT_VERIFIED', 'AUDIT_EXPORTED', 'TENANT_EXPORTED', 'TENANT_ROWS_REMOVED', 'TENANT_REMOVED', 'CALLS_REFUSED')
        and not exists (
          select from atlas.audit_log b
          where b.entity_id = n.meta->>'bulk_action' and b.entity_type = 'bulk_action' and b.action = 'BULK_ACTION_BEGAN'
            and b.meta->>'token' = n.meta->>'token'
            -- the event that began it is no alibi for itself
            and b.created_at <= least(t.revoked_at, t.expires_at) + interval '1 minute')) then 'time' end as what
) w
where n.meta ? 'token'
  and (n.entity_type <> 'job' or n.actor_type = 'user' or n.actor_id ^@ 'remote:')
  and w.what is not null
  and not (t.id is null and atlas.was_removed(n.tenant_id, n.created_at))
order by n.id desc
limit 100;
