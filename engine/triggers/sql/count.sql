-- The triggers of a tenant that were not removed. Called by engine/quotas.py.
select count(*)::int
from atlas.job_triggers
where tenant_id = :tenant_id
  and deleted_at is null;
