-- An intent that a person decides, held until the decision commits. A transaction that holds it is waited for, not passed over: the
-- decision is made, and what becomes of the intent must be what it says. SQL, because Prisma has no row locks.
select i.id, i.tenant_id, i.workflow, i.input, i.input_hash, i.spend_cents, i.priority, i.source::text, i.source_ref,
  i.correlation_id, i.requested_by, i.events_from, i.forked_from, i.forked_step
from atlas.intents i
where i.id = :id
  and i.status = 'awaiting_human'
for update;
