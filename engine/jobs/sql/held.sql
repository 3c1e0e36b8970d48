-- The jobs that run under a worker according to the database; with canceled_only, those that were asked to stop.
-- Looks across tenants: a worker serves them all. SQL, because a worker calls it, which does not load the generated client.
select id, attempt_count
from atlas.jobs
where claimed_by = :worker
  and status = 'running'
  and (not :canceled_only::boolean or cancel_requested_at is not null);
