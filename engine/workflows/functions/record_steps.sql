-- Writes the outcomes of steps of runs that this worker drives, many at once. Holding the worker's lock shared, no reaper can
-- give its runs to another before this commits, so that reading the job rows is fence enough.
-- Returns the numbers of those refused because their run is lost, whether the gate is open, and whether something is paused.
-- busy: a reaper is looking at this worker; ask again.
-- p_again: the response to the same call was lost; what is stored already counts as done.
-- Arrays that say the usual throughout (the first attempt of the run, its own branch, a step, that succeeded at once) are passed as null.
-- Locks: worker. Called by engine/workflows/steps/step_store.py.
create or replace function record_steps(
  p_worker text, p_again boolean, p_run uuid[], p_attempt int[], p_branch text[], p_position int[], p_name text[], p_kind text[],
  p_status text[], p_attempts int[], p_seconds float8[], p_input jsonb[], p_output json[], p_error jsonb[], p_known boolean[],
  p_reset uuid[],
  out is_open boolean, out some_are_paused boolean, out busy boolean, out lost int[]
) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set jit = off as $$
declare
  written int := 0;
begin
  busy := not pg_try_advisory_xact_lock_shared(lock_class('worker'), hashtext(p_worker));
  if busy then
    return;
  end if;
  if not exists (
    select from job_workers w where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp())
  then
    lost := array(select generate_subscripts(p_run, 1));
    return;
  end if;
  -- The fence stands in a case, opaque to the planner, so that the key is the only way in.
  if p_known is null and not p_again then
    insert into workflow_steps (run_id, branch, position, tenant_id, name, kind, status, attempts, started_at, finished_at, input,
      output, error)
    select u.run_id, coalesce(u.branch, ''), u.position, j.tenant_id, u.name, coalesce(u.kind, 'step')::step_kind,
      coalesce(u.status, 'succeeded')::step_status, coalesce(u.attempts, 1),
      clock_timestamp() - u.seconds * interval '1 second', clock_timestamp(), u.input, u.output, u.error
    from unnest(p_run, p_attempt, p_branch, p_position, p_name, p_kind, p_status, p_attempts, p_seconds, p_input, p_output, p_error)
      u(run_id, attempt, branch, position, name, kind, status, attempts, seconds, input, output, error)
    join only jobs j on j.id = u.run_id
      and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = coalesce(u.attempt, 1) then true else false end;
    get diagnostics written = row_count;
  else
    with u as materialized (
      select u.*, j.tenant_id
      from unnest(p_run, p_attempt, p_branch, p_position, p_name, p_kind, p_status, p_attempts, p_seconds, p_input, p_output, p_error,
        p_known)
        u(run_id, attempt, branch, position, name, kind, status, attempts, seconds, input, output, error, known)
      join only jobs j on j.id = u.run_id
        and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = coalesce(u.attempt, 1) then true else false end),
    ended as (
      update only workflow_steps s
      set status = coalesce(u.status, 'succeeded')::step_status, attempts = coalesce(u.attempts, greatest(s.attempts, 1)),
          finished_at = clock_timestamp(), wake_at = null, output = u.output, error = u.error
      from u
      where u.known and s.run_id = u.run_id and s.branch = coalesce(u.branch, '') and s.position = u.position
        and s.status in ('waiting', 'retrying')),
    begun as (
      insert into workflow_steps (run_id, branch, position, tenant_id, name, kind, status, attempts, started_at, finished_at, input,
        output, error)
      select u.run_id, coalesce(u.branch, ''), u.position, u.tenant_id, u.name, coalesce(u.kind, 'step')::step_kind,
        coalesce(u.status, 'succeeded')::step_status, coalesce(u.attempts, 1),
        clock_timestamp() - u.seconds * interval '1 second', clock_timestamp(), u.input, u.output, u.error
      from u where u.known is not true
      on conflict (run_id, branch, position) do nothing)
    select count(*) into written from u;
  end if;
  if written < cardinality(p_run) then
    select array_agg(u.n) into lost
    from unnest(p_run, p_attempt) with ordinality u(run_id, attempt, n)
    left join only jobs j on j.id = u.run_id
    where case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = coalesce(u.attempt, 1) then false else true end;
  end if;
  if p_reset is not null then
    -- A run that gets on is as good as new: no retries used, no losses counted.
    update only jobs set retry_count = 0, lost_count = 0, careful = false
    where id = any (p_reset) and case when status = 'running' and claimed_by = p_worker then true else false end;
  end if;
  select is_open(s), s.value ? 'pauses' into is_open, some_are_paused from system_state s where s.key = 'atlas_online';
end $$;
