-- A worker has confirmed that it starts nothing under the closed gate of this version. Called by engine/jobs/switches/gate.py. SQL,
-- because a worker calls it, which does not load the generated client.
update atlas.job_workers
set confirmed_gate = :version
where worker_id = :worker
  and confirmed_gate < :version;
