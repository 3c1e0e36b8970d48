-- A living worker serves other types from now on.
update atlas.job_workers
set job_types = :job_types::text[]
where worker_id = :worker
  and dead_at is null;
