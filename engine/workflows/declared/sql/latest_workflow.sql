-- The newest version of a declared workflow, and whether it is this very document.
-- SQL, because the database compares the documents, where 1 and true differ and 1 and 1.0 do not.
select id, version, is_enabled, updated_at, document = :document::text::jsonb as is_same
from atlas.workflows
where key = :key
  and tenant_id is not distinct from :tenant_id::uuid
  and kind = 'declared'
order by version desc
limit 1;
