-- What approvals are about: the tenant, the workflow with its version, what the run may spend, the input whose hash each is bound to, and whether a subject may decide it. A step's
-- approval is about its run's input, an intent's about its own. Called by engine/workflows/approvals.py. SQL, because an approval
-- belongs to a run or to an intent, and a function says who counts as the same person.
select a.id, t.slug as tenant, coalesce(r.workflow, i.workflow) as workflow,
  coalesce(r.version, (a.subject->>'version')::int) as version, i.spend_cents,
  case when a.kind = 'intent' then i.input else j.input->'input' end as input,
  a.status = 'pending' and a.expires_at > clock_timestamp()
    and not atlas.is_same_person(a.tenant_id, a.requested_by, :decider) as may_decide
from atlas.approvals a
left join atlas.tenants t on t.id = a.tenant_id
left join atlas.intents i on i.id = a.run_id
left join atlas.workflow_runs r on r.id = a.run_id
left join atlas.jobs j on j.id = a.run_id
where a.id = any (:ids::uuid[]);
