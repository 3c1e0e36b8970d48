-- nothing -> pending, for intents under review, with APPROVAL_REQUESTED. Bound to the hash of the intent's input, of the workflow's
-- definition and of the rules. SQL, because it writes to two tables in one statement.
with asked as (
  insert into atlas.approvals as made
    (id, tenant_id, run_id, kind, title, detail, input_hash, requested_by, expires_at, subject)
  select u.id, i.tenant_id, i.id, 'intent', 'Start ' || i.workflow || '?', jsonb_build_object('reason', u.reason),
    atlas.review_hash(i.input, u.subject), i.requested_by, clock_timestamp() + :expires::float8 * interval '1 second', u.subject
  from unnest(:ids::uuid[], :intents::uuid[], :reasons::text[], :subjects::jsonb[]) u(id, intent_id, reason, subject)
  join atlas.intents i on i.id = u.intent_id
  returning made.id, made.tenant_id, made.run_id, made.title, made.input_hash, made.expires_at, made.subject,
    atlas.state_digest(made, '{}') as state
),
event as (
  select a.tenant_id, a.id::text as entity_id, a.title as message,
    jsonb_build_object('intent_id', a.run_id, 'input_hash', encode(a.input_hash, 'hex'), 'expires_at', a.expires_at,
      'subject', a.subject, 'state', a.state) as meta
  from asked a
)
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, message, meta, body)
select e.tenant_id, 'system', 'engine', 'APPROVAL_REQUESTED', 'approval', e.entity_id, e.message, e.meta,
  atlas.audit_body(e.tenant_id, 'system', 'engine', 'info', 'APPROVAL_REQUESTED', 'approval', e.entity_id, e.message, e.meta)
from event e;
