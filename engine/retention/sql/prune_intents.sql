-- ended, past its age and without a run -> removed, with INTENTS_PRUNED, among the next intents of a tenant by id; approvals likewise.
-- SQL, because a function does it.
select looked, last, intents, approvals
from atlas.prune_intents(:tenant_id, :after, :until, :limit, :before);
