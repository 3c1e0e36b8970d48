-- A worker has confirmed that it starts nothing that it claimed before the pauses of this version. Called by engine/jobs/switches/pauses.py.
-- SQL, because a worker calls it, which does not load the generated client.
update atlas.job_workers
set confirmed_pause = :version
where worker_id = :worker
  and confirmed_pause < :version;
