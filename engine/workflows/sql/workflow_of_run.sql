-- The workflow of a run: the version that it keeps, or, in code, the one of its key, its tenant's before everyone's. The caller has
-- checked whose run it is. Called by engine/workflows/find_workflows.py. SQL, because a run of code refers to it by its key.
select w.id, w.tenant_id, w.key, w.version, w.kind::text, w.description, w.input_schema, w.document, w.is_enabled, w.created_by,
  w.created_at, w.updated_at, w.last_seen_at
from atlas.workflow_runs r
join atlas.workflows w on case when r.workflow_id is not null then w.id = r.workflow_id
  else w.key = r.workflow and w.version = r.version and (w.tenant_id is null or w.tenant_id = r.tenant_id) end
where r.id = :run_id
order by w.tenant_id nulls last
limit 1;
