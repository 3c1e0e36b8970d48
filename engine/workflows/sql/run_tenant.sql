-- Whose run it is, or will be once its intent is accepted, and how it stands: open or ended.
-- Without a tenant it looks across all (operators). SQL, because it looks in tables that no relation joins.
select r.tenant_id, coalesce(j.status::text, 'deleted') as status, j.status in ('queued', 'running') as is_open
from atlas.workflow_runs r
left join atlas.jobs j on j.id = r.id
where r.id = :run_id
  and (:tenant_id::uuid is null or r.tenant_id = :tenant_id)
union all
select i.tenant_id, i.status::text, i.status in ('draft', 'validating', 'awaiting_human', 'queued')
from atlas.intents i
where i.id = :run_id
  and (:tenant_id::uuid is null or i.tenant_id = :tenant_id)
  and not exists (select from atlas.workflow_runs r where r.id = i.id);
