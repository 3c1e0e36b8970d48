-- The preview of a bulk action by its digest, without the ids. Without a tenant it is one of operators, over all. SQL, because it counts ids
-- that it does not read. Called by engine/jobs/actions/bulk_previews.py.
select digest, tenant_id, action, filter, cardinality(ids) as count, left_out, complete, as_of
from atlas.bulk_previews
where digest = :digest
  and tenant_id is not distinct from :tenant_id::uuid;
