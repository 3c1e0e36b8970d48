-- The jobs that run under a worker according to the database.
-- Looks across tenants: a worker serves them all. SQL, because a worker calls it, which does not load the generated client.
select id, attempt_count
from only atlas.jobs
where claimed_by = :worker
  and status = 'running';
