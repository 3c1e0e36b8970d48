-- running -> queued for a run whose workflow this worker has no code for, while another living worker has it: a limited job is
-- claimed only by workers that have its code (pick_limited). Fenced by worker, attempt and a live lease; returns nothing where
-- that fails, where the run was asked to stop, or where no living worker has the code. Called by engine/workflows/defer_run.py.
-- SQL, because its guard is on the database's clock.
update only atlas.jobs j
set status = 'queued', careful = true, claimed_by = null, lease_expires_at = null, next_retry_at = null,
    updated_at = clock_timestamp()
where j.id = :run
  and j.status = 'running'
  and j.claimed_by = :worker
  and j.attempt_count = :attempt
  and j.cancel_requested_at is null
  and exists (
    select from atlas.job_workers w
    where w.worker_id = :worker and w.dead_at is null and w.lease_expires_at > clock_timestamp())
  and exists (
    select from atlas.job_workers w
    where w.dead_at is null and w.lease_expires_at > clock_timestamp() and w.metadata->'workflows' ? :workflow)
returning j.id, pg_notify('atlas_jobs', '');
