-- The tenants that were imported and have not left again. Called by audit/verification/verify.py. SQL, because it probes the log's index of entities
-- for each tenant.
select t.id
from atlas.tenants t
where exists (
  select from atlas.audit_log l
  where l.entity_id = t.id::text
    and l.tenant_id = t.id
    and l.action = 'TENANT_IMPORTED')
order by t.id;
