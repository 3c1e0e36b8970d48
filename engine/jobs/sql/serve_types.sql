-- A living worker serves other types from now on. SQL, because a worker calls it, which does not load the generated client.
update atlas.job_workers
set job_types = :job_types::text[]
where worker_id = :worker
  and dead_at is null;
