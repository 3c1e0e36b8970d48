-- The rules a tenant is under, its own and everyone's; without a tenant all there are (operators). Oldest first by their ids.
select id, tenant_id, label, effect::text, workflow, except_workflows, spend_above_cents, spend_per_day_cents, runs_per_day
from atlas.policy_rules
where is_enabled
  and (:tenant_id::uuid is null or tenant_id is null or tenant_id = :tenant_id)
  and (:after::uuid is null or id > :after)
order by id
limit :limit::bigint;
