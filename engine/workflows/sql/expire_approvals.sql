-- pending -> expired where the time is over, with APPROVAL_DECIDED. Looks across tenants: time passes for all of them.
-- SQL, because its guard is on the database's clock.
with late as (
  select id
  from atlas.approvals
  where status = 'pending'
    and expires_at <= clock_timestamp()
    and (:run_ids::uuid[] is null or run_id = any (:run_ids))
    and tenant_id <> all (atlas.moving_tenants())
  order by id
  limit 1000
  for update
),
expired as (
  update atlas.approvals a
  set status = 'expired', decided_at = clock_timestamp(), decided_by = 'engine'
  from late
  where a.id = late.id
    and a.status = 'pending'
  returning a.id, a.tenant_id, a.run_id, a.kind, a.title, a.step, atlas.state_digest(a, '{}') as state
),
-- an intent that was not approved in time is rejected
rejected as (
  update atlas.intents i
  set status = 'rejected', reason = 'it was not approved in time', updated_at = clock_timestamp()
  from expired e
  where i.id = e.run_id
    and e.kind = 'intent'
    and i.status = 'awaiting_human'
),
event as (
  select e.tenant_id, e.id::text as entity_id, e.title as message,
    jsonb_build_object('run_id', e.run_id, 'step', e.step, 'decision', 'expired', 'state', e.state) as meta
  from expired e
),
written as (
  insert into atlas.audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  select e.tenant_id, 'system', 'engine', 'warn', 'APPROVAL_DECIDED', 'approval', e.entity_id, e.message, e.meta,
    atlas.audit_body(e.tenant_id, 'system', 'engine', 'warn', 'APPROVAL_DECIDED', 'approval', e.entity_id, e.message, e.meta)
  from event e
)
select run_id
from expired
where kind = 'step';
