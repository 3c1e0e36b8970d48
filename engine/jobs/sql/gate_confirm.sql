-- A worker has confirmed that it starts nothing under the closed gate of this version. Called by engine/jobs/gate.py.
update atlas.job_workers
set confirmed_gate = :version
where worker_id = :worker
  and confirmed_gate < :version;
