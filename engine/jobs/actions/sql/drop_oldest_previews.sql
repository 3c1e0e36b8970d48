-- Previews of a tenant, or of operators over all, but for the newest and those of actions that still run: a caller could fill the disk with sets. SQL,
-- because it deletes by a rank. Called by engine/jobs/actions/bulk_previews.py.
delete from atlas.bulk_previews p
where p.tenant_id is not distinct from :tenant_id::uuid
  and p.as_of <= (
    select o.as_of from atlas.bulk_previews o
    where o.tenant_id is not distinct from :tenant_id::uuid
    order by o.as_of desc offset :kept::int limit 1)
  and not exists (
    select from atlas.bulk_actions b
    where b.status = 'running'
      and b.selection->>'digest' = p.digest);
