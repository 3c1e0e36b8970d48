-- The versions of a declared workflow. Called by engine/quotas.py.
select count(*)::int
from atlas.workflows
where key = :of
  and tenant_id is not distinct from :tenant_id::uuid
  and kind = 'declared';
