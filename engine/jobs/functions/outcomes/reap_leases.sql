-- Takes back the jobs of workers whose lease expired, and jobs whose own lease did. Safe in any number at once.
-- The first and the second loss requeue the job; the third is poison, unless workers die of something else. A job that was asked to stop is
-- canceled.
-- While something holds the xmin horizon, the entries of finished jobs stay in the index of running ones. Those of living workers are never
-- read: the jobs of unknown workers are between the ids of known ones. Those of a dead worker are read until it holds nothing, and then
-- it is marked: no claim commits under it any more.
-- What to lock is found first, and then locked by the key in the order of ids: in one step the planner may walk over all jobs in that order.
-- Locks: worker, job rows (skipping locked ones). Called by engine/jobs/lease.py.
create or replace function reap_leases(p_limit int) returns table (id uuid, worker_id text, verdict text) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  w text;
begin
  for w in
    select x.worker_id from job_workers x where x.dead_at is null and x.lease_expires_at < clock_timestamp()
    union
    select x.worker_id from job_workers x where x.dead_at is not null and x.cleared_at is null
    union
    select u.claimed_by
    from (select lag(x.worker_id, 1, '') over (order by x.worker_id) as after, x.worker_id as before from job_workers x) k
    cross join lateral (
      select distinct j.claimed_by from only jobs j
      where j.status = 'running' and j.lease_expires_at is null and j.claimed_by > k.after and j.claimed_by < k.before) u
    union
    select j.claimed_by from only jobs j
    where j.status = 'running' and j.lease_expires_at is null
      and j.claimed_by > coalesce((select max(x.worker_id) from job_workers x), '')
  loop
    -- Not got: a claim of that worker is in flight, or another reaper is at it. The next sweep looks again.
    continue when not pg_try_advisory_xact_lock(lock_class('worker'), hashtext(w));
    update job_workers x
    set dead_at = clock_timestamp(), lost_at = clock_timestamp(),
        -- A job that must run alone was the only one.
        suspect_job_id = coalesce(x.suspect_job_id, (
          select k.id from only jobs k
          where k.claimed_by = w and k.status = 'running' and k.lease_expires_at is null and k.lost_count >= alone_after_losses() limit 1))
    where x.worker_id = w and x.dead_at is null and x.lease_expires_at < clock_timestamp();
    if found then
      perform record_event(null, 'system', 'reaper', 'warn', 'WORKER_LOST', 'worker', w, '', '{}');
    end if;
    continue when exists (select from job_workers x where x.worker_id = w and x.dead_at is null);
    return query
    with held as materialized (
      select j.id from only jobs j where j.claimed_by = w and j.status = 'running' and j.lease_expires_at is null)
    select * from reclaim_jobs(array(
      select k.id from only jobs k
      where k.id = any (array(select h.id from held h order by h.id limit p_limit))
        and case when k.claimed_by = w and k.status = 'running' and k.lease_expires_at is null then true else false end
      order by k.id for update skip locked));
    -- In a newer snapshot than what was taken back: what others had locked, or was over the limit, is found by the next sweep.
    update job_workers x
    set cleared_at = clock_timestamp()
    where x.worker_id = w
      and x.dead_at is not null
      and not exists (select from only jobs j where j.claimed_by = w and j.status = 'running');
  end loop;
  return query
  with held as materialized (
    select j.id, j.status from only jobs j where j.lease_expires_at < statement_timestamp() order by j.lease_expires_at)
  select * from reclaim_jobs(array(
    select k.id from only jobs k
    where k.id = any (array(select h.id from held h where h.status = 'running' order by h.id limit p_limit))
      and case when k.status = 'running' and k.lease_expires_at < clock_timestamp() then true else false end
    order by k.id for update skip locked));
end $$;
