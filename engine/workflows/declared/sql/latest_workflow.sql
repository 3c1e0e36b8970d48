-- The newest version of a declared workflow, and whether it is this very document.
select id, version, is_enabled, document = :document::text::jsonb as is_same
from atlas.workflows
where key = :key
  and tenant_id is not distinct from :tenant_id::uuid
  and kind = 'declared'
order by version desc
limit 1;
