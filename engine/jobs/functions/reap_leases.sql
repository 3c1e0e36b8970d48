-- Takes back the jobs of workers whose lease expired, and jobs whose own lease did. Safe in any number at once.
-- The first and the second loss requeue the job; the third is poison, unless workers die of something else. A job that was asked to stop is
-- canceled.
-- Locks: worker, job rows (skipping locked ones). Called by engine/jobs/lease.py.
create or replace function reap_leases(p_limit int) returns table (id uuid, worker_id text, verdict text) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  w text;
begin
  for w in
    select x.worker_id from job_workers x where x.dead_at is null and x.lease_expires_at < clock_timestamp()
    union
    select distinct j.claimed_by from jobs j
    where j.status = 'running' and j.lease_expires_at is null
      and not exists (select from job_workers y where y.worker_id = j.claimed_by and y.dead_at is null)
  loop
    -- Not got: a claim of that worker is in flight, or another reaper is at it. The next sweep looks again.
    continue when not pg_try_advisory_xact_lock(lock_class('worker'), hashtext(w));
    update job_workers x
    set dead_at = clock_timestamp(), lost_at = clock_timestamp(),
        -- A job that must run alone was the only one.
        suspect_job_id = coalesce(x.suspect_job_id, (
          select k.id from jobs k
          where k.claimed_by = w and k.status = 'running' and k.lease_expires_at is null and k.lost_count >= alone_after_losses() limit 1))
    where x.worker_id = w and x.dead_at is null and x.lease_expires_at < clock_timestamp();
    if found then
      insert into audit_log (actor_type, actor_id, level, action, entity_type, entity_id, meta, body)
      values ('system', 'reaper', 'warn', 'WORKER_LOST', 'worker', w, '{}',
        audit_body(null, 'system', 'reaper', 'warn', 'WORKER_LOST', 'worker', w, '', '{}'));
    end if;
    continue when exists (select from job_workers x where x.worker_id = w and x.dead_at is null);
    return query select * from reclaim_jobs(array(
      select k.id from jobs k
      where k.claimed_by = w and k.status = 'running' and k.lease_expires_at is null
      order by k.id limit p_limit for update skip locked));
  end loop;
  return query select * from reclaim_jobs(array(
    select k.id from jobs k
    where k.status = 'running' and k.lease_expires_at < clock_timestamp()
    order by k.id limit p_limit for update skip locked));
end $$;
