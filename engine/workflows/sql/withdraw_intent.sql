-- draft, validating or awaiting_human -> rejected, by those who may cancel the run it would become; its open approval with it.
-- Without a tenant it looks across all (operators). SQL, because it writes, and calls a function, in one statement.
with withdrawn as (
  update atlas.intents
  set status = 'rejected', reason = :reason, updated_at = clock_timestamp()
  where id = :id
    and (:tenant_id::uuid is null or tenant_id = :tenant_id)
    and tenant_id <> all (atlas.moving_tenants())
    and status in ('draft', 'validating', 'awaiting_human')
  returning id, tenant_id
),
closed as (
  select atlas.cancel_approvals(array_agg(id), :decided_by::text) from withdrawn
)
select w.tenant_id
from withdrawn w, closed;
