-- Intents, and events that were published, which differ from the audit log: another requester than the event's actor, or gone though
-- no order of retention reaches them, nor the removal of their tenant. Among the newest rows of the log.
-- Across tenants: the whole installation is compared. SQL, because it compares tables that no relation connects.
with newest as (
  select a.action, a.entity_id, a.tenant_id, a.actor_id, a.created_at
  from atlas.audit_log a
  where a.action in ('INTENT_REQUESTED', 'EVENT_PUBLISHED')
  order by a.epoch desc, a.xid desc, a.id desc
  limit :limit
)
select n.entity_id as id, case n.action when 'INTENT_REQUESTED' then 'intent' else 'event' end as kind,
  coalesce(i.requested_by, e.created_by) is null as is_gone
from newest n
left join atlas.intents i on n.action = 'INTENT_REQUESTED' and i.id::text = n.entity_id
left join atlas.events e on n.action = 'EVENT_PUBLISHED' and e.id::text = n.entity_id
where coalesce(i.requested_by, e.created_by) is distinct from n.actor_id
  and not (coalesce(i.requested_by, e.created_by) is null and exists (
    select from atlas.audit_log p
    where p.entity_id = n.tenant_id::text
      and p.action = case n.action when 'INTENT_REQUESTED' then 'INTENTS_PRUNED' else 'EVENTS_PRUNED' end
      and (p.meta->>'before')::timestamptz > n.created_at))
  and not (coalesce(i.requested_by, e.created_by) is null and atlas.was_removed(n.tenant_id, n.created_at))
limit 100;
