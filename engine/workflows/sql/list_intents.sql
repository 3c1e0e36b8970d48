-- Intents, newest first by their time-ordered ids. Without a tenant it looks across all (operators).
select id, tenant_id, workflow, input, encode(input_hash, 'hex') as input_hash, status::text, reason, decision, spend_cents, priority,
  source::text, source_ref, correlation_id, requested_by, forked_from, forked_step, queued_at, created_at, updated_at
from atlas.intents
where (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:id::uuid is null or id = :id)
  and (:workflow::text is null or workflow = :workflow)
  and (:status::text is null or status = :status::text::atlas.intent_status)
  and (:before::uuid is null or id < :before)
order by id desc
limit :limit;
