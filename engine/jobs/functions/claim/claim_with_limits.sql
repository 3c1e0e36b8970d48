-- queued -> running, the general case of claim: for several types, or where jobs are due, limited, held or paused.
-- Arguments, rows and locks are those of claim, which calls it; its plans depend on no statistics either.
create or replace function claim_with_limits(
  p_worker text, p_slots int, p_prefetch int, p_types text[], p_lease float8, p_alone boolean, p_fair boolean, p_after uuid, p_resume jsonb
) returns setof turn_row language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off set jit = off as $$
#variable_conflict use_column
declare
  want constant int := p_slots + p_prefetch;
  some_are_due boolean;
  some_expired boolean;
  some_are_marked boolean;
  some_are_limited boolean;
  some_are_held boolean;
  is_busy boolean;
  next_token timestamptz;
  pauses_version int;
  paused_types text[] := '{}';
  paused_tenants uuid[] := '{}';
  some_workflows_are_paused boolean := false;
  picked tid[];
  remaining tid[];
  parks boolean := false;
  limited_picked tid[];
  solo tid;
  contested boolean;
  has_more boolean;
  passed_over boolean;
  next_after uuid := p_after;
  -- With places to go on from: earlier claims saw what fell due, was released or was woken before due_since.
  resume constant jsonb := case when p_resume ? 'places' then p_resume end;
  due_since constant timestamptz := coalesce(to_timestamp((p_resume->>'due_since')::float8), '-infinity');
  promoted int := 0;
  returned record;
  ready_picked tid[] := '{}';
  limited_places jsonb := coalesce(resume->'careful', '[]');
  place turn_row := turn_signal('place');
  -- What this claim may not see began to write after it: see workers/claims/resume_places.py.
  oldest_open constant xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
  if not may_claim(case when p_lease is null then p_worker end) then
    return next turn_signal('closed');
    return;
  end if;
  select
    (select true from only jobs j where j.status = 'queued' and j.next_retry_at <= statement_timestamp() and j.next_retry_at >= due_since
     order by j.next_retry_at limit 1),
    -- With places, the sweep cancels those that expired.
    (select bool_or(e.parent_run_id is null)
     from (select j.parent_run_id from only jobs j where resume is null and j.status = 'queued' and j.start_by <= statement_timestamp()
           order by j.start_by limit 200) e),
    (select true from only jobs j where resume is null and is_ready_limited(j)
     order by j.tenant_id, j.job_type limit 1),
    exists (select from job_types y where y.concurrency is not null and y.concurrency_key is null and (p_types is null or y.key = any (p_types)))
      or exists (select from tenants x where x.limits ? 'in_flight'),
    case when resume is null then exists (select from limit_events) or exists (select from job_limits l where l.release_at is not null)
      else coalesce(
        (select true from limit_events e where e.noted_at >= due_since order by e.noted_at limit 1),
        (select true from job_limits l where l.release_at >= due_since order by l.release_at limit 1), false) end,
    (select (s.value->>'pauses')::int from system_state s where s.key = 'atlas_online')
  into some_are_due, some_expired, some_are_marked, some_are_limited, some_are_held, pauses_version;
  if pauses_version is not null then
    select p.types, p.tenants, p.has_workflows into paused_types, paused_tenants, some_workflows_are_paused from paused_now() p;
    -- So that a worker that has not heard of them gives back what it claimed before.
    return next turn_signal('paused', p_number => pauses_version);
  end if;
  if some_expired then
    -- Those that a run waits for are left to the sweep: a claim does not wait for the rows of runs.
    perform expire_jobs(greatest(200, 2 * want), false);
  end if;
  if some_are_due then
    promoted := promote_due_since(greatest(200, 2 * want), due_since);
  end if;
  -- What was promoted just now may be held.
  if some_are_due or some_are_held then
    select r.busy into is_busy from release_held(want, p_types, due_since) r;
    if is_busy then
      return next turn_signal('busy');
    end if;
    select l.release_at into next_token from job_limits l where l.release_at >= due_since order by l.release_at limit 1;
    if next_token is not null then
      return next turn_signal('token_waits',
        p_number => least(3600000, greatest(1, ceil(1000 * extract(epoch from next_token - clock_timestamp()))))::int);
    end if;
  end if;
  -- Jobs that were promoted or released just now may be limited.
  if resume is null then
    limited_picked := case when some_are_due or some_are_held or some_are_marked then
      pick_limited(p_worker, p_types, p_slots, p_fair, paused_types, paused_tenants, null) else '{}' end;
  else
    select * into returned from pick_returned(p_types, want, due_since, paused_types, paused_tenants);
    limited_places := limited_places || returned.careful;
    limited_picked := case when limited_places <> '[]' then
      pick_limited(p_worker, p_types, p_slots, p_fair, paused_types, paused_tenants, limited_places) else '{}' end;
  end if;
  if limited_picked is null then
    return next turn_signal('busy');
  end if;
  if some_workflows_are_paused and cardinality(limited_picked) > 0 then
    remaining := pause_runs(limited_picked);
    parks := cardinality(remaining) < cardinality(limited_picked);
    limited_picked := remaining;
  end if;
  if cardinality(limited_picked) > 0 then
    solo := (
      select j.ctid from only jobs j where j.ctid = any (limited_picked) and j.lost_count >= alone_after_losses()
      order by j.priority desc, j.created_at limit 1);
  end if;
  if solo is not null and p_alone then
    picked := array[solo];
  else
    if solo is not null then
      limited_picked := array(
        select j.ctid from only jobs j where j.ctid = any (limited_picked) and j.lost_count < alone_after_losses());
      return next turn_signal('alone_waits');
    end if;
    select r.p_after, r.picked, r.contested, r.has_more, r.passed_over into next_after, picked, contested, has_more, passed_over
    from pick_ready(p_types, want, p_fair, p_after, paused_types, paused_tenants, resume) r;
    if contested then
      return next turn_signal('shared', p_tenant => next_after);
    end if;
    if has_more then
      return next turn_signal('more');
    end if;
    if resume is not null then
      ready_picked := picked;
      picked := picked || returned.picked;
    end if;
    if some_workflows_are_paused and cardinality(picked) > 0 then
      remaining := pause_runs(picked);
      parks := parks or cardinality(remaining) < cardinality(picked);
      picked := remaining;
    end if;
    if cardinality(picked) > 0 and some_are_limited then
      -- Picked jobs under a limit are marked, and the next claim counts them.
      limited_places := limited_places || coalesce((
        select jsonb_agg(jsonb_build_array(l.job_type, l.tenant_id, l.priority, l.since))
        from (
          select j.job_type, j.tenant_id, j.priority, extract(epoch from min(j.created_at)) - 0.001 as since
          from only jobs j where resume is not null and j.ctid = any (picked) group by j.job_type, j.tenant_id, j.priority) l), '[]');
      remaining := mark_limited(picked);
      parks := parks or cardinality(remaining) < cardinality(picked);
      picked := remaining;
    end if;
    if parks then
      return next turn_signal('more');
    end if;
    if cardinality(limited_picked) > 0 or cardinality(picked) > cardinality(ready_picked) and resume is not null then
      -- Ready, returned and limited jobs in one order; what is left over is unlocked with the commit.
      picked := order_picked(picked || limited_picked, want, p_fair);
    end if;
  end if;
  if resume is not null then
    if promoted < greatest(200, 2 * want) and not (solo is not null and p_alone) then
      -- All that fell due, was released or was woken by then was seen, and is claimed but for what is left.
      place.start_within := extract(epoch from least(statement_timestamp(), returned.left_since,
        (select min(j.due_at) from only jobs j where j.ctid = any (returned.picked) and j.ctid <> all (picked)),
        case when some_are_held then (select e.noted_at from limit_events e where e.noted_at >= due_since order by e.noted_at limit 1) end,
        next_token));
      place.input := jsonb_build_array(
        extract(epoch from statement_timestamp()), oldest_open::text::bigint, pg_current_xact_id_if_assigned()::text::bigint);
      return next place;
    end if;
    return query select * from claimed_places(picked, ready_picked, limited_places);
    if passed_over and cardinality(picked) < want then
      return query select * from left_places(picked, resume, p_types, paused_types, paused_tenants);
    end if;
  end if;
  return query select * from start_jobs(picked, p_worker, p_lease);
end $$;
