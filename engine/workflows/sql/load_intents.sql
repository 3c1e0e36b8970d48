-- Intents to be decided, held until the decision commits. Waits for rows that another transaction has locked: a claim that began earlier
-- locks a row before it sees that it is no draft any more, and an intent that was passed over for that would wait until it counts as stuck.
-- Looks across tenants: the engine serves them all. SQL, because Prisma has no row locks.
select i.id, i.tenant_id, i.workflow, i.input, i.input_hash, i.spend_cents, i.priority, i.source::text, i.source_ref,
  i.correlation_id, i.requested_by, i.events_from, i.forked_from, i.forked_step
from atlas.intents i
where i.id = any (:ids)
  and i.status = :status::text::atlas.intent_status
order by i.created_at, i.id
for update;
