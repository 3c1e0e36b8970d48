-- queued -> running, the general way of claim: for several types, or where jobs are due, careful, limited, held or paused.
-- Arguments, rows and locks are those of claim, which calls it; its plans depend on no statistics either.
create or replace function claim_careful(
  p_worker text, p_slots int, p_prefetch int, p_types text[], p_lease float8, p_alone boolean, p_fair boolean, p_after uuid, p_resume jsonb
) returns setof turn_row language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off set jit = off as $$
#variable_conflict use_column
declare
  want constant int := p_slots + p_prefetch;
  signal turn_row;
  some_are_due boolean;
  some_expired boolean;
  some_are_careful boolean;
  some_are_limited boolean;
  some_are_held boolean;
  is_busy boolean;
  next_token timestamptz;
  pauses_version int;
  paused_types text[] := '{}';
  paused_tenants uuid[] := '{}';
  some_workflows_are_paused boolean := false;
  picked tid[];
  parted tid[];
  parks boolean := false;
  careful_picked tid[];
  solo tid;
  contested boolean;
  has_more boolean;
  next_after uuid := p_after;
  -- With places to go on from: what fell due before was promoted by an earlier claim.
  promoted int := 0;
  promoted_places jsonb;
  resume jsonb := case when p_resume ? 'places' then p_resume end;
  due_since timestamptz := coalesce(to_timestamp((p_resume->>'due_since')::float8), '-infinity');
begin
  if not may_claim(case when p_lease is null then p_worker end) then
    signal.kind := 'closed';
    return next signal;
    return;
  end if;
  select
    (select true from jobs j where j.status = 'queued' and j.next_retry_at <= statement_timestamp() and j.next_retry_at >= due_since
     order by j.next_retry_at limit 1),
    (select bool_or(e.parent_run_id is null)
     from (select j.parent_run_id from jobs j where j.status = 'queued' and j.start_by <= statement_timestamp()
           order by j.start_by limit 200) e),
    (select true from jobs j where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and j.careful
     order by j.tenant_id, j.job_type limit 1),
    exists (select from job_types y where y.concurrency is not null and y.concurrency_key is null and (p_types is null or y.key = any (p_types)))
      or exists (select from tenants x where x.limits ? 'in_flight'),
    exists (select from limit_events) or exists (select from job_limits l where l.release_at is not null),
    (select (s.value->>'pauses')::int from system_state s where s.key = 'atlas_online')
  into some_are_due, some_expired, some_are_careful, some_are_limited, some_are_held, pauses_version;
  if pauses_version is not null then
    select coalesce(array_agg(p.target) filter (where p.kind in ('type', 'definition')), '{}'),
      coalesce(array_agg(p.tenant_id) filter (where p.kind = 'tenant'), '{}'), coalesce(bool_or(p.kind = 'workflow'), false)
    into paused_types, paused_tenants, some_workflows_are_paused
    from pauses p where p.until is null or p.until > clock_timestamp();
    -- So that a worker that has not heard of them gives back what it claimed before.
    signal.kind := 'paused';
    signal.attempt_count := pauses_version;
    return next signal;
    signal.attempt_count := null;
  end if;
  if some_expired then
    -- Those that a run waits for are left to the sweep: a claim does not wait for the rows of runs.
    perform expire_jobs(greatest(200, 2 * want), false);
  end if;
  if some_are_due then
    select p.moved, p.places into promoted, promoted_places from promote_due_since(greatest(200, 2 * want), due_since) p;
    resume := resume || jsonb_build_object('promoted', promoted_places);
  end if;
  -- What was promoted just now may be held.
  if some_are_due or some_are_held then
    select r.busy into is_busy from release_held(want, p_types) r;
    if is_busy then
      signal.kind := 'busy';
      return next signal;
    end if;
    select min(l.release_at) into next_token from job_limits l where l.release_at is not null;
    if next_token is not null then
      signal.kind := 'token_waits';
      signal.attempt_count := least(3600000, greatest(1, ceil(1000 * extract(epoch from next_token - clock_timestamp()))));
      return next signal;
      signal.attempt_count := null;
    end if;
  end if;
  -- What was promoted or released just now may be careful.
  careful_picked := case when some_are_due or some_are_held or some_are_careful then
    pick_careful(p_worker, p_types, p_slots, p_fair, paused_types, paused_tenants) else '{}' end;
  if careful_picked is null then
    signal.kind := 'busy';
    return next signal;
  end if;
  if some_workflows_are_paused and cardinality(careful_picked) > 0 then
    parted := park_runs(careful_picked);
    parks := cardinality(parted) < cardinality(careful_picked);
    careful_picked := parted;
  end if;
  if cardinality(careful_picked) > 0 then
    solo := (
      select j.ctid from jobs j where j.ctid = any (careful_picked) and j.lost_count >= alone_after_losses()
      order by j.priority desc, j.created_at limit 1);
  end if;
  if solo is not null and p_alone then
    picked := array[solo];
  else
    if solo is not null then
      careful_picked := array(
        select j.ctid from jobs j where j.ctid = any (careful_picked) and j.lost_count < alone_after_losses());
      signal.kind := 'alone_waits';
      return next signal;
    end if;
    select r.p_after, r.picked, r.contested, r.has_more into next_after, picked, contested, has_more
    from pick_ready(p_types, want, p_fair, p_after, paused_types, paused_tenants, resume) r;
    if contested then
      signal.kind := 'shared';
      signal.tenant_id := next_after;
      return next signal;
      signal.tenant_id := null;
    end if;
    if has_more then
      signal.kind := 'more';
      return next signal;
    end if;
    if some_workflows_are_paused and cardinality(picked) > 0 then
      parted := park_runs(picked);
      parks := parks or cardinality(parted) < cardinality(picked);
      picked := parted;
    end if;
    if cardinality(picked) > 0 and some_are_limited then
      -- Picked jobs under a limit become careful, and the next claim counts them.
      parted := set_aside(picked);
      parks := parks or cardinality(parted) < cardinality(picked);
      picked := parted;
    end if;
    if parks then
      signal.kind := 'more';
      return next signal;
    end if;
    if cardinality(careful_picked) > 0 then
      -- Ready and careful jobs in one order; what is left over is unlocked with the commit.
      picked := array(
        select o.at
        from (
          select j.ctid as at, j.tenant_id, j.priority, j.created_at,
            row_number() over (partition by j.tenant_id order by j.priority desc, j.created_at) - 1 as before
          from jobs j where j.ctid = any (picked || careful_picked)) o
        join shares(array(select distinct j.tenant_id from jobs j where j.ctid = any (picked || careful_picked)), p_fair) s
          on s.tenant_id = o.tenant_id
        order by s.at + o.before * s.cost, o.priority desc, o.created_at limit want);
    end if;
  end if;
  if resume is not null then
    if promoted < greatest(200, 2 * want) then
      -- All that had fallen due by then is ready.
      signal.kind := 'place';
      signal.start_within := extract(epoch from statement_timestamp());
      return next signal;
      signal.start_within := null;
    end if;
    return query
    select 'place'::turn_kind, null::uuid, j.tenant_id, j.job_type, null::jsonb, j.priority, null::int, null::int, null::int, null::int, null::uuid,
      null::uuid, null::text, null::uuid, null::boolean, extract(epoch from max(j.created_at))::float8, null::float8
    from jobs j where j.ctid = any (picked) and not j.careful group by j.tenant_id, j.job_type, j.priority;
    if promoted > 0 and cardinality(picked) >= want then
      -- Some of those that became ready may be left, before the places of the caller.
      return query
      select 'place'::turn_kind, null::uuid, (e->>1)::uuid, e->>0, null::jsonb, (e->>2)::int, null::int, null::int, null::int, null::int, null::uuid,
        null::uuid, null::text, null::uuid, null::boolean, min((e->>3)::float8), null::float8
      from jsonb_array_elements(promoted_places) e group by e->>1, e->>0, e->>2;
    end if;
  end if;
  return query
  update jobs
  -- The guard reads the clock before: a job that it lets start in time did so.
  set status = 'running', started_at = least(clock_timestamp(), start_by), updated_at = clock_timestamp(), claimed_by = p_worker,
      attempt_count = attempt_count + 1, lease_expires_at = case when p_lease is not null then clock_timestamp() + p_lease * interval '1 second' end
  where ctid = any (picked) and case when status = 'queued' and (start_by is null or start_by > clock_timestamp()) then true else false end
  returning 'claimed'::turn_kind, id, tenant_id, job_type, input, attempt_count, retry_count,
    case when retries_chosen then max_retries end, lost_count,
    timeout_seconds, definition_id, parent_run_id, correlation_id, server_instance_id, lost_count >= alone_after_losses(),
    case when start_by is not null then extract(epoch from start_by - clock_timestamp())::float8 end,
    case when finish_by is not null then extract(epoch from finish_by - clock_timestamp())::float8 end;
end $$;
