-- What tenants have started today, by the tenant's own clock. Called by engine/policy/judge.py. SQL, because it sums over a
-- join.
select t.id as tenant_id, i.workflow, count(*)::int as runs, sum(i.spend_cents)::bigint as spend_cents
from atlas.tenants t
join atlas.intents i on i.tenant_id = t.id
where t.id = any (:tenants)
  and i.queued_at >= date_trunc('day', clock_timestamp() at time zone t.timezone) at time zone t.timezone
group by t.id, i.workflow;
