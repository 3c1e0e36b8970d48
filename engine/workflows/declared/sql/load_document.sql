-- A version of a declared workflow, of the run's own tenant or everyone's.
-- SQL, because a worker calls it, which does not load the generated client.
select tenant_id, document
from atlas.workflows
where id = :id
  and (tenant_id is null or tenant_id = :tenant_id);
