-- A version of a declared workflow, of the run's own tenant or everyone's.
select tenant_id, document
from atlas.workflows
where id = :id
  and (tenant_id is null or tenant_id = :tenant_id);
