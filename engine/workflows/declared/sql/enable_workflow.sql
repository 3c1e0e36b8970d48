-- Switches a workflow on or off, in all its versions. Returns the id of the newest one, or no row if there is none.
with switched as (
  update atlas.workflows
  set is_enabled = :enabled
  where key = :key
    and tenant_id is not distinct from :tenant_id::uuid
  returning id, version
)
select id from switched order by version desc limit 1;
