-- The answer of a step comes back as it was written. jsonb orders keys anew and writes numbers in its own way, so that a run
-- that was replayed could see another answer than the run that got it.
alter table workflow_steps alter column output type json;

-- Writes the outcomes of steps of runs that this worker drives, many at once. Holding the worker's key shared, no reaper can
-- give its runs to another before this commits, so that reading the job rows is fence enough.
-- Answers the numbers of those refused because their run is lost, and whether the gate is open.
-- busy: a reaper is looking at this worker right now; ask again.
-- p_again: the answer to the same call was lost; what is stored already counts as done.
-- Arrays that say the usual throughout (the run's own line, a step, that succeeded at its first attempt) are passed as null.
-- Has the place of atlas_checkpoint, which stays for workers of the version before, until they are replaced.
create function atlas_record_steps(
  p_worker text, p_again boolean, p_run uuid[], p_attempt int[], p_branch text[], p_position int[], p_name text[], p_kind text[],
  p_status text[], p_attempts int[], p_seconds float8[], p_input jsonb[], p_output json[], p_error jsonb[], p_known boolean[],
  p_reset uuid[],
  out is_open boolean, out busy boolean, out lost int[]
) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set jit = off as $$
declare
  written int := 0;
begin
  busy := not pg_try_advisory_xact_lock_shared(42711, hashtext(p_worker));
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
    join jobs j on j.id = u.run_id
      and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = u.attempt then true else false end;
    get diagnostics written = row_count;
  else
    with u as materialized (
      select u.*, j.tenant_id
      from unnest(p_run, p_attempt, p_branch, p_position, p_name, p_kind, p_status, p_attempts, p_seconds, p_input, p_output, p_error,
        p_known)
        u(run_id, attempt, branch, position, name, kind, status, attempts, seconds, input, output, error, known)
      join jobs j on j.id = u.run_id
        and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = u.attempt then true else false end),
    ended as (
      update workflow_steps s
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
    left join jobs j on j.id = u.run_id
    where case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = u.attempt then false else true end;
  end if;
  if p_reset is not null then
    -- A run that gets on is as good as new: no retries used, no losses counted.
    update jobs set retry_count = 0, lost_count = 0, careful = false
    where id = any (p_reset) and status = 'running' and claimed_by = p_worker;
  end if;
  is_open := exists (select from system_state where key = 'atlas_online' and value->>'online' = 'true');
end $$;

-- What runs have recorded, and what has come of what they wait for. A function only for its plan: the keys, whatever the
-- statistics say.
drop function atlas_load_runs(uuid[]);
create function atlas_load_runs(p_runs uuid[]) returns table (
  run_id uuid, branch text, "position" int, name text, kind text, status text, attempts int, output json, error jsonb, due boolean,
  child_id uuid, child_status text, child_output jsonb, child_error jsonb, event_name text, event_context jsonb,
  approval_status text, approval_by text, approval_comment text, event_gone boolean
) language sql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
  select s.run_id, s.branch, s.position, s.name, s.kind::text, s.status::text, s.attempts, s.output, s.error,
    coalesce(s.wake_at <= clock_timestamp(), false), s.child_id, c.status::text, c.output, c.error, s.event_name, e.context,
    a.status::text, a.decided_by, a.comment, s.status = 'waiting' and s.event_id is not null and e.id is null
  from workflow_steps s
  left join jobs c on c.id = s.child_id and s.status = 'waiting'
  left join events e on e.id = s.event_id and s.status = 'waiting'
  left join approvals a on a.id = s.approval_id and s.status = 'waiting'
  where s.run_id = any (p_runs)
$$;

-- Removes events that the triggers have seen, and firings, older than a moment. A firing stays while it can swallow another.
-- An event that a run was woken by and has not read yet stays.
create or replace function atlas_prune_events(p_tenant uuid, p_before timestamptz, p_limit int)
returns table (events int, fires int) language plpgsql volatile
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  facts jsonb;
begin
  delete from events e
  where e.id = any (array(
    select o.id from events o
    where o.tenant_id = p_tenant and o.created_at < p_before and (o.handled_at is not null or o.run_id is not null)
      and not exists (
        select from workflow_steps s
        where s.tenant_id = p_tenant and s.event_name = o.name and s.status = 'waiting' and s.event_id = o.id)
    order by o.created_at limit p_limit for update skip locked));
  get diagnostics events = row_count;
  delete from trigger_fires f
  where f.id = any (array(
    select o.id from trigger_fires o
    left join job_triggers t on t.id = o.trigger_id
    where o.tenant_id = p_tenant and o.fired_at < p_before
      and (t.id is null or o.fired_at < clock_timestamp() - t.dedupe_window_seconds * interval '1 second')
    order by o.fired_at limit p_limit for update of o skip locked));
  get diagnostics fires = row_count;
  if events + fires > 0 then
    facts := jsonb_build_object('events', events, 'fires', fires, 'before', p_before);
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    values (p_tenant, 'system', 'retention', 'EVENTS_PRUNED', 'tenant', p_tenant, facts,
      atlas_audit_body(p_tenant, 'system', 'retention', 'info', 'EVENTS_PRUNED', 'tenant', p_tenant::text, '', facts));
  end if;
  return next;
end $$;
