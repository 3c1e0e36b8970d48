-- due -> running under a lease, for the functions that this program has. Looks across tenants: a program serves them all.
select tenant_id, id, run_count, timeout_seconds
from atlas.claim_recurring(:by, :tenants, :ids, :lease);
