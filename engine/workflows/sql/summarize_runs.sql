-- The newest thousand runs of a tenant, or of all (operators), counted by workflow and version. Called by
-- engine/workflows/find_runs.py. SQL, because it counts groups of a bounded piece; each branch reads one index from its end.
with newest as (
  (select r.id
  from atlas.workflow_runs r
  where :tenant_id::uuid is not null
    and r.tenant_id = :tenant_id
  order by r.tenant_id desc, r.id desc
  limit 1000)
  union all
  (select r.id
  from atlas.workflow_runs r
  where :tenant_id::uuid is null
  order by r.id desc
  limit 1000)
)
select s.workflow, s.version, count(*)::int as total,
  (count(*) filter (where s.status in ('queued', 'waiting', 'running')))::int as active,
  (count(*) filter (where s.status = 'succeeded'))::int as succeeded,
  (count(*) filter (where s.status = 'failed'))::int as failed,
  (count(*) filter (where s.status = 'canceled'))::int as canceled,
  max(s.created_at) as last_created_at
from newest n
join atlas.workflow_run_states s on s.id = n.id
group by s.workflow, s.version
order by s.workflow, s.version;
