-- A worker's life begins. Its id is new, so there is nothing to guard. SQL, because the lease is on the database's clock.
with worker as (
  insert into atlas.job_workers (worker_id, hostname, version, job_types, lease_expires_at, metadata)
  values (:worker, :hostname, :version, :job_types::text[], clock_timestamp() + :lease::float8 * interval '1 second', :metadata::text::jsonb)
  returning worker_id
)
insert into atlas.worker_keys (worker_id, key)
select w.worker_id, :key::bytea from worker w where :key::bytea is not null;
