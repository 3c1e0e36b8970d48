-- A worker's life begins. Its id is new, so there is nothing to guard.
insert into atlas.job_workers (worker_id, hostname, version, job_types, lease_expires_at, metadata)
values (:worker, :hostname, :version, :job_types::text[], clock_timestamp() + :lease::float8 * interval '1 second', :metadata::text::jsonb);
