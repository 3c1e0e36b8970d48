-- What runs under a worker, as the database sees it; with canceled_only, what of it was asked to stop.
-- Looks across tenants: a worker serves them all.
select id, attempt_count
from atlas.jobs
where claimed_by = :worker
  and status = 'running'
  and (not :canceled_only::boolean or cancel_requested_at is not null);
