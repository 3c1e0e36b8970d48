-- due -> running under a lease, for the functions of this process. Looks across tenants: a process serves them all.
select tenant_id, id, run_count, timeout_seconds
from atlas.claim_recurring(:by, :tenants, :ids, :lease);
