-- How many losses make a job poison. Every worker that was lost meanwhile without running this job, and without a suspect of its own, shows
-- that workers die of something else: it allows for one more loss, up to max_losses.
-- p_losses: how often the job was lost before; p_worker: whose loss is being counted. Called by reclaim_jobs.
create or replace function losses_until_poison(p_job uuid, p_worker text, p_losses int) returns int language plpgsql stable
set search_path from current as $$
begin
  return least(max_losses(), poison_after_losses() + (
    select count(*)
    from job_workers w
    where w.lost_at >= (
        select min(l.started_at)
        from (
          select a.started_at from only job_attempts a
          where a.job_id = p_job and a.status = 'lost' order by a.attempt_no desc limit p_losses) l)
      and w.suspect_job_id is null
      and w.worker_id <> p_worker
      and not exists (select from only job_attempts a where a.job_id = p_job and a.worker_id = w.worker_id)));
end $$;
