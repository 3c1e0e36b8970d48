-- The newest version of a workflow, declared or code's, of a tenant or of everyone. Called by engine/workflows/declared/store.py.
select id, is_enabled
from atlas.workflows
where key = :key
  and tenant_id is not distinct from :tenant_id::uuid
order by version desc
limit 1;
