-- Whose run it is. Without a tenant it looks across all (operators).
select tenant_id
from workflow_runs
where id = :run_id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id);
