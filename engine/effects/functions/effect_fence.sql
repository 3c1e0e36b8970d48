-- Whether an attempt still has its job: this worker, this attempt, a live lease on the database's clock. Holds the job's row until the transaction ends, so that
-- no reaper gives the job to another attempt before. Locks: job row. Called by begin_effect, end_effect, note_effect, take_mails and take_send_slot.
create or replace function effect_fence(p_worker text, p_job uuid, p_attempt int) returns boolean language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
  perform from only jobs j where j.id = p_job for no key update;
  return exists (
    select from only jobs j
    where j.id = p_job
      and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = p_attempt
               then case when j.lease_expires_at is null
                         then exists (select from job_workers w
                                      where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp())
                         else j.lease_expires_at > clock_timestamp() end
          else false end);
end $$;
