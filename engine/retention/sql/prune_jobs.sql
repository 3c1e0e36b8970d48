-- ended and past its age -> removed, with JOBS_PRUNED, among the next ended jobs of a tenant by id. SQL, because a function
-- does it.
select looked, last, jobs, attempts, steps
from atlas.prune_jobs(:tenant_id, :after, :until, :limit, :jobs_before, :attempts_before, :steps_before);
