-- What tenants have started today, by the tenant's own clock: requests that were accepted, and child runs, which have none.
-- Called by engine/policy/judge.py. SQL, because it sums over a join.
select t.id as tenant_id, s.workflow, count(*)::int as runs, sum(s.spend_cents)::bigint as spend_cents
from atlas.tenants t
cross join lateral (select date_trunc('day', clock_timestamp() at time zone t.timezone) at time zone t.timezone as began) day
cross join lateral (
  select i.workflow, i.spend_cents
  from atlas.intents i
  where i.tenant_id = t.id
    and i.queued_at >= day.began
  union all
  select r.workflow, 0
  from atlas.workflow_runs r
  where r.tenant_id = t.id
    and r.created_at >= day.began
    and r.parent_run_id is not null
) s
where t.id = any (:tenants)
group by t.id, s.workflow;
