-- The first half of suspending runs: what may wake them is locked out, and each says whether it may suspend.
-- Verdicts: held; lost; canceled, it was asked to stop; busy, ask again. certain: nothing is publishing an event it waits for.
-- Locks: worker, event, job rows in ascending id. Called by engine/workflows/suspend.py.
create or replace function hold_runs(p_worker text, p_id uuid[], p_attempt int[], p_event_run uuid[], p_event_key text[])
returns table (id uuid, verdict text, certain boolean) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  alive boolean;
  busy_keys text[];
begin
  if not pg_try_advisory_xact_lock_shared(lock_class('worker'), hashtext(p_worker)) then
    return query select u.id, 'busy', false from unnest(p_id) u(id);
    return;
  end if;
  if p_event_key is not null then
    -- Never waits: a long transaction may be publishing. Such a run is replayed shortly.
    busy_keys := array(
      select k.key from (select distinct unnest(p_event_key) order by 1) k(key)
      where not pg_try_advisory_xact_lock(lock_class('event'), hashtext(k.key)));
  end if;
  alive := exists (
    select from job_workers w
    where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp());
  perform from only jobs j where j.id = any (p_id) order by j.id for update;
  return query
  select u.id,
    case when not alive or j.id is null or j.status <> 'running' or j.claimed_by <> p_worker or j.attempt_count <> u.attempt then 'lost'
         when j.cancel_requested_at is not null then 'canceled'
         else 'held' end,
    busy_keys is null or not exists (
      select from unnest(p_event_run, p_event_key) e(run_id, key) where e.run_id = u.id and e.key = any (busy_keys))
  from unnest(p_id, p_attempt) u(id, attempt)
  left join only jobs j on j.id = u.id;
end $$;
