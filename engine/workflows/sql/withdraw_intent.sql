-- draft, validating or awaiting_human -> rejected, by those who may cancel the run it would become; its open approval with it.
-- Without a tenant it looks across all (operators).
with withdrawn as (
  update atlas.intents
  set status = 'rejected', reason = :reason, updated_at = clock_timestamp()
  where id = :id
    and (:tenant_id::uuid is null or tenant_id = :tenant_id)
    and status in ('draft', 'validating', 'awaiting_human')
  returning id, tenant_id
),
closed as (
  update atlas.approvals a
  set status = 'canceled', decided_at = clock_timestamp(), decided_by = :decided_by
  from withdrawn w
  where a.run_id = w.id
    and a.status = 'pending'
)
select tenant_id
from withdrawn;
