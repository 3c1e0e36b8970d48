-- Whether this attempt still holds the job. Locks the row for the caller's transaction, so that no other takes the job over
-- between the check and the write that relies on it.
create or replace function mail_held(p_job uuid, p_worker text, p_attempt int) returns boolean language plpgsql volatile
set search_path from current as $$
begin
  perform from only jobs j
  where j.id = p_job and j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = p_attempt
    and case when j.lease_expires_at is null
             then exists (select from job_workers w
                          where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp())
             else j.lease_expires_at > clock_timestamp() end
  for share;
  return found;
end $$;
