-- Switches a workflow on or off, in all its versions. Returns whether there is such a workflow.
update atlas.workflows
set is_enabled = :enabled
where key = :key
  and tenant_id is not distinct from :tenant_id::uuid
returning id;
