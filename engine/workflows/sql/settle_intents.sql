-- validating or awaiting_human -> what was decided, with INTENT_BLOCKED for those that policy forbids.
-- The caller holds the rows. Looks across tenants: the engine serves them all.
-- SQL, because it writes to two tables in one statement.
with settled as (
  update atlas.intents i
  set status     = u.status::atlas.intent_status,
      reason     = u.reason,
      decision   = coalesce(u.decision, i.decision),
      queued_at  = case when u.status = 'queued' then clock_timestamp() end,
      updated_at = clock_timestamp()
  from unnest(:ids::uuid[], :statuses::text[], :reasons::text[], :decisions::jsonb[]) u(id, status, reason, decision)
  where i.id = u.id
    and i.status in ('validating', 'awaiting_human')
  returning i.id, i.tenant_id, i.workflow, i.status, i.reason, i.decision
),
event as (
  select s.tenant_id, s.id::text as entity_id, s.reason as message,
    jsonb_build_object('workflow', s.workflow, 'decision', s.decision) as meta
  from settled s
  where s.status = 'blocked'
)
insert into atlas.audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
select e.tenant_id, 'system', 'engine', 'warn', 'INTENT_BLOCKED', 'intent', e.entity_id, e.message, e.meta,
  atlas.audit_body(e.tenant_id, 'system', 'engine', 'warn', 'INTENT_BLOCKED', 'intent', e.entity_id, e.message, e.meta)
from event e;
