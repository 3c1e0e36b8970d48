-- The jobs that a worker process runs, the longest first, across tenants: it serves all of them. Called by
-- api/resources/workers/workers.py. SQL, because it leaves out what the jobs hold.
select id, tenant_id, job_type, attempt_count, started_at, cancel_requested_at
from only atlas.jobs
where claimed_by = :worker_id
  and status = 'running'
order by started_at, id
limit :limit;
