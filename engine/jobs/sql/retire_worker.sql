-- A worker stops in good order. SQL, because its times are on the database's clock.
update atlas.job_workers
set dead_at = clock_timestamp(), last_seen_at = clock_timestamp(), running_count = 0
where worker_id = :worker
  and dead_at is null;
