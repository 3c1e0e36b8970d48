-- nothing -> draft, with INTENT_REQUESTED and a hint to the engine. Returns the intents, or none of them where the tenant does not
-- exist or is being removed, or a workflow is not known: `unchecked` says which may be unknown. Called by engine/workflows/intents.py.
-- SQL, because it writes to two tables in one statement.
with wanted as (
  select *
  from unnest(
    :ids::uuid[], :tenants::uuid[], :workflows::text[], :inputs::jsonb[], :spends::int[], :priorities::int[], :sources::text[],
    :source_refs::text[], :correlations::text[], :forked_from::uuid[], :forked_steps::text[], :unchecked::boolean[])
    u(id, tenant_id, workflow, input, spend_cents, priority, source, source_ref, correlation_id, forked_from, forked_step, unchecked)
),
asked as (
  insert into atlas.intents (id, tenant_id, workflow, input, input_hash, spend_cents, priority, source, source_ref, correlation_id,
    requested_by, forked_from, forked_step, events_from)
  select u.id, u.tenant_id, u.workflow, u.input, sha256(convert_to(u.input::text, 'UTF8')), u.spend_cents, u.priority,
    u.source::atlas.job_source, u.source_ref, u.correlation_id, :requested_by, u.forked_from, u.forked_step,
    coalesce((select r.events_from from atlas.workflow_runs r where r.id = u.forked_from), atlas.event_cursor())
  from wanted u
  join atlas.tenants t on t.id = u.tenant_id and t.removing_at is null and t.moving_at is null
  where not exists (
    select from wanted x
    where not x.unchecked
      and not exists (
        select from atlas.workflows w
        where w.key = x.workflow and (w.tenant_id is null or w.tenant_id = x.tenant_id)))
  returning id, tenant_id, workflow
),
event as (
  select a.tenant_id, a.id, jsonb_build_object('workflow', a.workflow) || :meta::text::jsonb as meta
  from asked a
),
written as (
  insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
  select e.tenant_id, :actor_type::text::atlas.actor_type, :requested_by, 'INTENT_REQUESTED', 'intent', e.id, e.meta,
    atlas.audit_body(e.tenant_id, :actor_type::text, :requested_by, 'info', 'INTENT_REQUESTED', 'intent', e.id::text, '', e.meta)
  from event e
)
select a.id, pg_notify('atlas_intents', '')
from asked a;
