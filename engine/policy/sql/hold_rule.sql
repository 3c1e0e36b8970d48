-- Locks a rule until the end of the transaction that edits it; a rule without a tenant is for all of them. Called by
-- engine/policy/rules.py. SQL, because Prisma has no row locks.
select id
from atlas.policy_rules
where label = :label
  and tenant_id is not distinct from :tenant_id::uuid
for no key update;
