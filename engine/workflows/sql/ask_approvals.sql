-- nothing -> pending, for steps of runs, with APPROVAL_REQUESTED. Bound to the run's input, to what is shown and, for the review of a
-- child's start, to its subject.
-- SQL, because it writes to two tables in one statement.
with asked as (
  insert into atlas.approvals as made (id, tenant_id, run_id, kind, step, title, detail, input_hash, requested_by, expires_at,
    subject)
  select u.id, u.tenant_id, u.run_id, 'step', u.step, u.title, u.detail,
    sha256(convert_to((j.input->'input')::text || u.detail::text || coalesce(u.subject::text, ''), 'UTF8')), u.requested_by,
    clock_timestamp() + u.expires * interval '1 second', u.subject
  from unnest(
    :ids::uuid[], :tenants::uuid[], :runs::uuid[], :steps::text[], :titles::text[], :details::jsonb[], :requesters::text[],
    :expires::float8[], :subjects::jsonb[])
    u(id, tenant_id, run_id, step, title, detail, requested_by, expires, subject)
  join only atlas.jobs j on j.id = u.run_id
  returning made.id, made.tenant_id, made.run_id, made.step, made.title, made.input_hash, made.expires_at,
    atlas.state_digest(made, '{}') as state
),
event as (
  select a.tenant_id, a.id::text as entity_id, a.title as message,
    jsonb_build_object('run_id', a.run_id, 'step', a.step, 'input_hash', encode(a.input_hash, 'hex'), 'expires_at', a.expires_at,
      'state', a.state) as meta
  from asked a
)
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, message, meta, body)
select e.tenant_id, 'system', 'engine', 'APPROVAL_REQUESTED', 'approval', e.entity_id, e.message, e.meta,
  atlas.audit_body(e.tenant_id, 'system', 'engine', 'info', 'APPROVAL_REQUESTED', 'approval', e.entity_id, e.message, e.meta)
from event e;
