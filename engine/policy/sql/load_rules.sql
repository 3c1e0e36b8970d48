-- The enabled rules for these tenants, their own and everyone's. Called by engine/policy/judge.py for every batch of intents.
-- SQL, because workers run it, and do not import the generated client.
select id, tenant_id, label, effect::text, workflow, except_workflows, spend_above_cents, spend_per_day_cents, runs_per_day
from atlas.policy_rules
where is_enabled
  and (tenant_id is null or tenant_id = any (:tenants))
order by label;
