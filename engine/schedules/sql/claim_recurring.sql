-- due -> running under a lease, for the functions of this process. Looks across tenants: a process serves them all. SQL,
-- because a function does it.
select run_id, tenant_id, id, attempt_no, timeout_seconds
from atlas.claim_recurring(:by, :tenants, :ids, :lease);
