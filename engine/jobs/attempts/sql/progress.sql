-- Stores the progress of a running job; only the attempt that holds it may. SQL, because the time is the database's.
update only atlas.jobs
set progress = :progress::text::jsonb || jsonb_build_object('at', clock_timestamp()), updated_at = clock_timestamp()
where id = :job_id
  and status = 'running'
  and claimed_by = :claimant
  and attempt_count = :attempt
returning id;
