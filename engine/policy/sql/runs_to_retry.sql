-- Of these jobs, the runs that a retry would start again, with what policy judges them by: `is_counted` where today's figures
-- include the run, `rules` of the review that approved its start. Without a tenant it looks across all (operators).
-- Called by engine/policy/retries.py. SQL, because it joins a run with its request, its parent's step and their approvals.
select j.id, r.tenant_id, r.workflow, coalesce(i.spend_cents, 0) as spend_cents,
  coalesce(i.queued_at, r.created_at) >= date_trunc('day', clock_timestamp() at time zone t.timezone) at time zone t.timezone
    as is_counted,
  (select a.subject->'rules' from atlas.approvals a
   where a.status = 'approved'
     and (a.run_id = r.id and a.kind = 'intent'
       or a.id = (select s.approval_id from atlas.rows_of_jobs(null::atlas.workflow_steps, array[r.parent_run_id]) s where s.child_id = r.id))
   limit 1) as approved_rules
from atlas.rows_of_jobs(null::atlas.jobs, :ids) j
join atlas.rows_of_jobs(null::atlas.workflow_runs, :ids) r on r.id = j.id
join atlas.tenants t on t.id = r.tenant_id
left join atlas.intents i on i.id = r.id
where j.job_type = 'ENGINE_RUN'
  and j.status in ('failed', 'canceled')
  and (:tenant_id::uuid is null or j.tenant_id = :tenant_id);
