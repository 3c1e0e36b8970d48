-- The life of a job, as functions: each is one round trip and one commit, and every statement inside a
-- volatile function has a fresh snapshot, which is what makes the gate and the fences hold.
--
-- Advisory locks, always taken in this order, then job rows in ascending id, then audit rows:
--   (42710, 0)              the gate: shared by every claim, exclusive for the switch
--   (42711, hash of worker) a worker's life: shared by its claims, exclusive for the reaper
--   (42712, 0)              the careful lane: one claim at a time counts limits

-- May this worker claim now? Lock in one statement, read in the next, so that the read is younger than the lock.
-- A claimant without a worker row (p_worker null) carries a lease per job and needs only the gate.
create function atlas_claim_open(p_worker text) returns boolean language plpgsql volatile as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'a claim needs READ COMMITTED, not %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state', hint = 'Claim outside of a serializable or repeatable read transaction.';
  end if;
  if not pg_try_advisory_xact_lock_shared(42710, 0) then
    return false;
  end if;
  if p_worker is null then
    return exists (select from system_state where key = 'atlas_online' and value->>'online' = 'true');
  end if;
  if not pg_try_advisory_xact_lock_shared(42711, hashtext(p_worker)) then
    return false;
  end if;
  return exists (
    select from system_state s
    join job_workers w on w.worker_id = p_worker
    where s.key = 'atlas_online' and s.value->>'online' = 'true'
      and w.dead_at is null and w.lease_expires_at > clock_timestamp());
end $$;

-- Moves jobs whose time has come to the ready indexes. Being a statement of its own, the claim after it sees them.
create function atlas_promote(p_limit int) returns int language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  moved int := 0;
begin
  if exists (select from jobs where status = 'queued' and next_retry_at <= statement_timestamp()) then
    update jobs set next_retry_at = null
    where id = any (array(
        select id from jobs where status = 'queued' and next_retry_at <= statement_timestamp()
        order by next_retry_at limit p_limit for update skip locked))
      and status = 'queued';
    get diagnostics moved = row_count;
  end if;
  return moved;
end $$;

-- Picks ready jobs from the open lane: locks them and answers their addresses, best first.
-- p_types null means every type. One type reads its own index; several read the global one when the queue holds
-- nothing else, and an arm per type otherwise, so that jobs of other types in front cost nothing.
-- It and the two functions after it run under the plan settings of the turn that calls them.
create function atlas_pick(p_types text[], p_limit int) returns tid[] language plpgsql volatile as $$
declare
  strangers boolean := false;
begin
  if cardinality(p_types) = 1 then
    return array(
      select ctid from jobs
      where status = 'queued' and next_retry_at is null and host_id is null and not careful and job_type = p_types[1]
      order by priority desc, created_at limit p_limit for update skip locked);
  end if;
  if p_types is not null then
    -- Walks from type to type along the index: as many probes as there are types in the queue.
    strangers := exists (
      with recursive present as (
        (select job_type from jobs
         where status = 'queued' and next_retry_at is null and host_id is null and not careful
         order by job_type limit 1)
        union all
        select (select j.job_type from jobs j
                where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
                  and j.job_type > p.job_type
                order by j.job_type limit 1)
        from present p where p.job_type is not null)
      select from present where job_type is not null and not job_type = any (p_types));
  end if;
  if not strangers then
    return array(
      select ctid from jobs
      where status = 'queued' and next_retry_at is null and host_id is null and not careful
        and (p_types is null or job_type = any (p_types))
      order by priority desc, created_at limit p_limit for update skip locked);
  end if;
  return array(
    select a.at from unnest(p_types) t(job_type)
    cross join lateral (
      select ctid as at, priority, created_at from jobs j
      where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
        and j.job_type = t.job_type
      order by j.priority desc, j.created_at limit p_limit for update skip locked) a
    order by a.priority desc, a.created_at limit p_limit);
end $$;

-- Picks from the careful lane: only into free slots, and only as far as the limits of type and tenant allow.
-- Its cost grows with the number of (tenant, type) groups that wait there, not with the number of jobs.
-- Answers null when another claim is counting at this moment.
create function atlas_pick_careful(p_types text[], p_slots int) returns tid[] language plpgsql volatile as $$
begin
  if not exists (select from jobs where status = 'queued' and next_retry_at is null and host_id is null and careful) then
    return '{}';
  end if;
  if not pg_try_advisory_xact_lock(42712, 0) then
    return null;
  end if;
  return array(
    with recursive groups as (
      (select tenant_id, job_type from jobs
       where status = 'queued' and next_retry_at is null and host_id is null and careful
       order by tenant_id, job_type limit 1)
      union all
      select n.tenant_id, n.job_type
      from groups g
      cross join lateral (
        select j.tenant_id, j.job_type from jobs j
        where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and j.careful
          and (j.tenant_id, j.job_type) > (g.tenant_id, g.job_type)
        order by j.tenant_id, j.job_type limit 1) n),
    running as materialized (
      select job_type, tenant_id, count(*) as n from jobs where status = 'running' group by job_type, tenant_id),
    room as materialized (
      select g.tenant_id, g.job_type,
        (select y.concurrency from job_types y where y.key = g.job_type and y.concurrency is not null)
          - coalesce((select sum(r.n) from running r where r.job_type = g.job_type), 0) as of_type,
        (select (x.limits->>'in_flight')::int from tenants x where x.id = g.tenant_id)
          - coalesce((select sum(r.n) from running r where r.tenant_id = g.tenant_id), 0) as of_tenant
      from groups g
      where p_types is null or g.job_type = any (p_types)),
    waiting as materialized (
      select a.at, a.priority, a.created_at, m.tenant_id, m.job_type, m.of_type, m.of_tenant
      from room m
      cross join lateral (
        select ctid as at, priority, created_at from jobs j
        where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and j.careful
          and j.tenant_id = m.tenant_id and j.job_type = m.job_type
        order by j.priority desc, j.created_at
        limit greatest(0, least(p_slots, m.of_type, m.of_tenant))
        for update skip locked) a),
    counted as (
      select at, priority, created_at, of_type, of_tenant,
        row_number() over (partition by job_type order by priority desc, created_at) as nth_of_type,
        row_number() over (partition by tenant_id order by priority desc, created_at) as nth_of_tenant
      from waiting)
    select at from counted
    where (of_type is null or nth_of_type <= of_type) and (of_tenant is null or nth_of_tenant <= of_tenant)
    order by priority desc, created_at limit p_slots);
end $$;

-- Moves picked jobs whose type or tenant has a limit into the careful lane, and answers the rest.
create function atlas_set_aside(p_picked tid[]) returns tid[] language plpgsql volatile as $$
declare
  limited_types text[] := array(select key from job_types where concurrency is not null);
  limited_tenants uuid[] := array(select id from tenants where limits ? 'in_flight');
begin
  if cardinality(limited_types) + cardinality(limited_tenants) = 0 then
    return p_picked;
  end if;
  update jobs set careful = true
  where ctid = any (p_picked) and status = 'queued'
    and (job_type = any (limited_types) or tenant_id = any (limited_tenants));
  -- An updated row has moved, so its old address matches nothing any more.
  return array(select ctid from jobs where ctid = any (p_picked) and status = 'queued' and not careful);
end $$;

-- Wakes workflow runs whose child has ended. A run and the job row that carries it have one id.
-- The rows are locked in a statement of their own: a parent that is suspending at this moment holds its row, and only
-- the statement after the wait sees it as queued. A parent that still runs looks at its children when it suspends.
create function atlas_wake_parents(p_parents uuid[]) returns void language plpgsql volatile as $$
begin
  if cardinality(p_parents) > 0 then
    perform from jobs where id = any (p_parents) order by id for update;
    update jobs set next_retry_at = null where id = any (p_parents) and status = 'queued' and next_retry_at is not null;
    perform pg_notify('atlas_jobs', '');
  end if;
end $$;

-- A turn: finish what is done, then claim. Finish alone with p_slots = p_prefetch = 0, claim alone with empty arrays.
-- Rows: c claimed; l finish refused, the lease is lost; k finish refused, a cancel was asked for;
--       x the gate is closed or this worker is not alive; b the careful lane is busy, ask again; m more was set aside, ask again.
-- Ids come sorted. p_status 'queued' with p_delay is a retry, a snooze or a release. Arrays that are null throughout are passed as null.
create function atlas_turn(
  p_worker text, p_slots int, p_prefetch int, p_types text[], p_lease float8,
  p_id uuid[], p_attempt int[], p_status text[], p_output jsonb[], p_error jsonb[], p_delay float8[], p_used int[],
  p_cost int[], p_action text[], p_level text[], p_message text[], p_meta jsonb[], p_body bytea[], p_detail jsonb[],
  p_private jsonb[]
) returns table (
  kind "char", id uuid, tenant_id uuid, job_type text, input jsonb, attempt_count int, retry_count int, max_retries int,
  lost_count int, timeout_seconds int, definition_id uuid, parent_run_id uuid, correlation_id text
) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  alive boolean;
  done uuid[];
  parents uuid[];
  runs uuid[];
  want int := p_slots + p_prefetch;
  picked tid[];
  careful_picked tid[];
begin
  if cardinality(p_id) > 0 then
    alive := p_lease is not null or exists (
      select from job_workers w
      where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp());
    -- The fence stands in a case, opaque to the planner, so that the key is the only way in.
    with fin as (
      update jobs j
      set status = u.status::job_status,
          output = coalesce(u.output, j.output),
          error = coalesce(u.error, j.error),
          retry_count = j.retry_count + coalesce(u.used, 0),
          cost_cents = j.cost_cents + coalesce(u.cost, 0),
          next_retry_at = case when u.status = 'queued' and u.delay > 0 then statement_timestamp() + u.delay * interval '1 second' end,
          finished_at = case when u.status <> 'queued' then clock_timestamp() end,
          updated_at = clock_timestamp(),
          claimed_by = case when u.status <> 'queued' then j.claimed_by end,
          lease_expires_at = null,
          dead_lettered_at = case when u.action = 'JOB_EXHAUSTED_RETRIES' then clock_timestamp() end
      from unnest(p_id, p_attempt, p_status, p_output, p_error, p_delay, p_used, p_cost, p_action, p_level, p_message, p_meta,
                  p_body, p_detail, p_private)
        u(id, attempt, status, output, error, delay, used, cost, action, level, message, meta, body, detail, private)
      where j.id = u.id
        and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = u.attempt
                  and case when j.lease_expires_at is null then alive else j.lease_expires_at > clock_timestamp() end
                  and not (u.status = 'queued' and j.cancel_requested_at is not null)
            then true else false end
      returning j.id, j.tenant_id, j.attempt_count, j.started_at, j.host_id, u.action, u.level, u.message, u.meta, u.body,
        u.detail, u.private, case when u.status <> 'queued' then j.parent_run_id end as parent,
        case when j.job_type = 'ENGINE_RUN' and u.status <> 'queued' then j.id end as run),
    aud as (
      insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
      select f.tenant_id, 'system', p_worker, coalesce(f.level, 'info')::audit_level, f.action, 'job', f.id,
        coalesce(f.message, ''), coalesce(f.meta, '{}'), f.body
      from fin f where f.action is not null),
    att as (
      insert into job_attempts (job_id, attempt_no, worker_id, host_id, pid, status, started_at, finished_at, duration_ms,
        exit_code, stdout_tail, stderr_tail, error_text, outcome, result, log_ref)
      select f.id, f.attempt_count, p_worker, f.host_id, (f.detail->>'pid')::int, (f.detail->>'status')::attempt_status,
        f.started_at, clock_timestamp(), extract(epoch from clock_timestamp() - f.started_at) * 1000,
        (f.detail->>'exit_code')::int, f.detail->>'stdout_tail', f.detail->>'stderr_tail', f.detail->>'error_text',
        f.detail->>'outcome', coalesce(f.detail->'result', '{}'), f.detail->>'log_ref'
      from fin f where f.detail is not null),
    priv as (
      insert into audit_private (commitment, tenant_id, entity_id, field, salt, value)
      select decode(x.commitment, 'hex'), f.tenant_id, x.entity_id, x.field, decode(x.salt, 'hex'), x.value
      from fin f
      cross join lateral jsonb_to_recordset(f.private)
        x(commitment text, field text, salt text, value text, entity_id text)
      where f.private is not null)
    select array_agg(f.id), array_agg(distinct f.parent) filter (where f.parent is not null), array_agg(f.run) filter (where f.run is not null)
    into done, parents, runs from fin f;
    if parents is not null then
      perform atlas_wake_parents(parents);
    end if;
    if runs is not null then
      perform atlas_runs_ended(runs);
    end if;
    if done is null or cardinality(done) < cardinality(p_id) then
      return query
      select case when j.cancel_requested_at is not null and j.status = 'running' and j.claimed_by = p_worker
                   and j.attempt_count = u.attempt
                  then 'k' else 'l' end::"char",
        u.id, null::uuid, null::text, null::jsonb, u.attempt, null::int, null::int, null::int, null::int, null::uuid, null::uuid,
        null::text
      from unnest(p_id, p_attempt) u(id, attempt)
      left join jobs j on j.id = u.id
      where done is null or u.id <> all (done);
    end if;
  end if;

  if want > 0 then
    if not atlas_claim_open(case when p_lease is null then p_worker end) then
      return query select 'x'::"char", null::uuid, null::uuid, null::text, null::jsonb, null::int, null::int, null::int, null::int,
        null::int, null::uuid, null::uuid, null::text;
      return;
    end if;
    perform atlas_promote(greatest(200, 2 * want));
    careful_picked := atlas_pick_careful(p_types, p_slots);
    if careful_picked is null then
      return query select 'b'::"char", null::uuid, null::uuid, null::text, null::jsonb, null::int, null::int, null::int, null::int,
        null::int, null::uuid, null::uuid, null::text;
    end if;
    picked := atlas_pick(p_types, want);
    if cardinality(picked) > 0 then
      -- Picked jobs under a limit go to the careful lane, where the next turn counts them.
      done := null;
      want := cardinality(picked);
      picked := atlas_set_aside(picked);
      if cardinality(picked) < want then
        return query select 'm'::"char", null::uuid, null::uuid, null::text, null::jsonb, null::int, null::int, null::int, null::int,
          null::int, null::uuid, null::uuid, null::text;
      end if;
    end if;
    if cardinality(careful_picked) > 0 then
      -- Both lanes in one order; what is left over is unlocked with the commit.
      picked := array(
        select j.ctid from jobs j where j.ctid = any (picked || careful_picked)
        order by j.priority desc, j.created_at limit p_slots + p_prefetch);
    end if;
    return query
    update jobs
    set status = 'running', started_at = clock_timestamp(), updated_at = clock_timestamp(), claimed_by = p_worker,
        attempt_count = attempt_count + 1, lease_expires_at = clock_timestamp() + p_lease * interval '1 second'
    where ctid = any (picked) and status = 'queued'
    returning 'c'::"char", id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds,
      definition_id, parent_run_id, correlation_id;
  end if;
end $$;

-- Takes back the jobs of workers whose lease ran out, and jobs whose own lease did. Safe in any number at once.
-- The first and second loss requeue the job, in the careful lane; the third is poison. A job asked to stop is canceled.
create function atlas_reap(p_limit int) returns table (id uuid, worker_id text, verdict text) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
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
    continue when not pg_try_advisory_xact_lock(42711, hashtext(w));
    update job_workers x set dead_at = clock_timestamp()
    where x.worker_id = w and x.dead_at is null and x.lease_expires_at < clock_timestamp();
    continue when exists (select from job_workers x where x.worker_id = w and x.dead_at is null);
    return query select * from atlas_reclaim(array(
      select k.id from jobs k
      where k.claimed_by = w and k.status = 'running' and k.lease_expires_at is null
      order by k.id limit p_limit for update skip locked));
  end loop;
  return query select * from atlas_reclaim(array(
    select k.id from jobs k
    where k.status = 'running' and k.lease_expires_at < clock_timestamp()
    order by k.id limit p_limit for update skip locked));
end $$;

-- What becomes of jobs whose lease is over. The caller holds their rows.
create function atlas_reclaim(p_ids uuid[]) returns table (id uuid, worker_id text, verdict text) language plpgsql volatile as $$
#variable_conflict use_column
begin
  return query
  with lost as (
    select j.id, j.tenant_id, j.claimed_by, j.attempt_count, j.started_at, j.host_id,
      case when j.cancel_requested_at is not null then 'canceled'
           when j.lost_count >= 2 then 'poisoned'
           else 'requeued' end as verdict
    from jobs j
    where j.id = any (p_ids) and j.status = 'running'),
  moved as (
    update jobs j
    set status = case l.verdict when 'requeued' then 'queued' when 'poisoned' then 'failed' else 'canceled' end::job_status,
        lost_count = j.lost_count + 1,
        careful = true,
        claimed_by = case when l.verdict <> 'requeued' then j.claimed_by end,
        lease_expires_at = null,
        -- Up to two seconds of jitter, so that what one crash dropped does not return as one wave.
        next_retry_at = case when l.verdict = 'requeued' then clock_timestamp() + (1 + 2 * random()) * interval '1 second' end,
        finished_at = case when l.verdict <> 'requeued' then clock_timestamp() end,
        dead_lettered_at = case when l.verdict = 'poisoned' then clock_timestamp() end,
        error = case when l.verdict = 'poisoned' then jsonb_build_object(
            'type', 'Poison', 'message', 'Three workers were lost while they ran this job; it is quarantined.',
            'attemptedAt', j.started_at, 'retryCount', j.retry_count, 'lostTo', l.claimed_by) else j.error end,
        updated_at = clock_timestamp()
    from lost l
    where j.id = l.id and j.status = 'running' and j.claimed_by = l.claimed_by and j.attempt_count = l.attempt_count
    returning j.id, l.tenant_id, l.claimed_by, l.attempt_count, l.started_at, l.host_id, l.verdict),
  att as (
    insert into job_attempts (job_id, attempt_no, worker_id, host_id, status, started_at, finished_at, duration_ms, error_text)
    select m.id, m.attempt_count, m.claimed_by, m.host_id, 'lost', m.started_at, clock_timestamp(),
      extract(epoch from clock_timestamp() - m.started_at) * 1000, 'The lease expired before an outcome was recorded.'
    from moved m),
  events as (
    select m.tenant_id, m.id::text as entity_id, m.claimed_by as message,
      case m.verdict when 'requeued' then 'LEASE_EXPIRED' when 'poisoned' then 'JOB_POISONED' else 'JOB_CANCELED' end as action,
      case m.verdict when 'poisoned' then 'error' else 'warn' end as level,
      jsonb_build_object('attempt', m.attempt_count, 'worker', m.claimed_by) as meta
    from moved m),
  aud as (
    insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
    select e.tenant_id, 'system', 'reaper', e.level::audit_level, e.action, 'job', e.entity_id, e.message, e.meta,
      atlas_audit_body(e.tenant_id, 'system', 'reaper', e.level, e.action, 'job', e.entity_id, e.message, e.meta)
    from events e)
  select m.id, m.claimed_by, m.verdict from moved m;
  perform atlas_wake_parents(array(
    select distinct j.parent_run_id from jobs j
    where j.id = any (p_ids) and j.status in ('failed', 'canceled') and j.parent_run_id is not null));
  perform atlas_runs_ended(array(
    select j.id from jobs j where j.id = any (p_ids) and j.status in ('failed', 'canceled') and j.job_type = 'ENGINE_RUN'));
end $$;

-- Enqueue any number of jobs: insert, dedupe, audit rows and wake-up in one call. The ids come from the caller.
-- Answers only what differs from "made as asked": jobs that already existed under an active dedupe key.
-- With p_coalesce false, a key held by a job of another type or input is refused (errcode AT409, detail: the holder).
create function atlas_enqueue_many(
  p_actor_type text, p_actor_id text, p_coalesce boolean,
  p_id uuid[], p_tenant uuid[], p_type text[], p_input jsonb[], p_meta jsonb[], p_body bytea[],
  p_priority int[] default null, p_delay float8[] default null, p_run_at timestamptz[] default null, p_max_retries int[] default null,
  p_dedupe_key text[] default null, p_dedupe_hash bytea[] default null, p_correlation text[] default null,
  p_source text[] default null, p_source_ref text[] default null, p_timeout int[] default null, p_definition uuid[] default null,
  p_host uuid[] default null, p_instance uuid[] default null, p_parent_run uuid[] default null
) returns table (nth int, id uuid) language plpgsql volatile
set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  stranger uuid;
  rest int[];
  made int[];
  holder record;
begin
  select t.id into stranger from (select distinct unnest(p_tenant)) t(id)
  where not exists (select from tenants x where x.id = t.id) limit 1;
  if found then
    raise exception 'there is no tenant %', stranger using errcode = 'AT404', detail = stranger::text;
  end if;

  for round in 1..20 loop
    with asked as materialized (
      select u.*
      from unnest(p_id, p_tenant, p_type, p_input, p_meta, p_body, p_priority, p_delay, p_run_at, p_max_retries, p_dedupe_key,
                  p_dedupe_hash, p_correlation, p_source, p_source_ref, p_timeout, p_definition, p_host, p_instance, p_parent_run)
        with ordinality
        u(id, tenant_id, job_type, input, meta, body, priority, delay, run_at, max_retries, dedupe_key,
          dedupe_hash, correlation_id, source, source_ref, timeout_seconds, definition_id, host_id, server_instance_id, parent_run_id, n)
      where rest is null or u.n = any (rest)),
    ins as (
      insert into jobs (id, tenant_id, job_type, input, priority, next_retry_at, max_retries, dedupe_key, dedupe_hash, correlation_id,
        source, source_ref, created_by, timeout_seconds, definition_id, host_id, server_instance_id, parent_run_id)
      select a.id, a.tenant_id, a.job_type, a.input, coalesce(a.priority, 0),
        case when a.delay > 0 then statement_timestamp() + a.delay * interval '1 second'
             when a.run_at > statement_timestamp() then a.run_at end,
        coalesce(a.max_retries, (select y.max_retries from job_types y where y.key = a.job_type), 3),
        a.dedupe_key, a.dedupe_hash, a.correlation_id,
        coalesce(a.source, 'manual')::job_source, a.source_ref, p_actor_id,
        a.timeout_seconds, a.definition_id, a.host_id, a.server_instance_id, a.parent_run_id
      from asked a
      on conflict (tenant_id, dedupe_hash) where dedupe_hash is not null and status in ('queued', 'running') do nothing
      returning id),
    aud as (
      insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
      select a.tenant_id, p_actor_type::actor_type, p_actor_id, 'JOB_CREATED', 'job', a.id, coalesce(a.meta, '{}'),
        coalesce(a.body, atlas_audit_body(a.tenant_id, p_actor_type, p_actor_id, 'info', 'JOB_CREATED', 'job', a.id::text, '',
                                          coalesce(a.meta, '{}')))
      from asked a
      where p_dedupe_hash is null or a.id in (select i.id from ins i))
    select array_agg(a.n::int) into made from asked a where p_dedupe_hash is not null and a.id in (select i.id from ins i);
    perform pg_notify('atlas_jobs', '');
    if p_dedupe_hash is null then
      return;
    end if;

    -- What was not made is held by an active job, unless that job ended in this very moment: then insert again.
    if rest is null then
      rest := array(select g from generate_subscripts(p_id, 1) g);
    end if;
    rest := array(select r from unnest(rest) r where made is null or r <> all (made));
    for holder in
      select r as n, j.id, j.input <> p_input[r] or j.job_type <> p_type[r] as differs
      from unnest(rest) r
      join jobs j on j.tenant_id = p_tenant[r] and j.dedupe_hash = p_dedupe_hash[r] and j.status in ('queued', 'running')
    loop
      if holder.differs and not p_coalesce then
        raise exception 'the dedupe key is held by job % with another input', holder.id
          using errcode = 'AT409', detail = holder.id::text, hint = p_dedupe_key[holder.n];
      end if;
      nth := holder.n;
      id := holder.id;
      return next;
      rest := array_remove(rest, holder.n);
    end loop;
    exit when cardinality(rest) = 0;
  end loop;
  if cardinality(rest) > 0 then
    raise exception 'the dedupe key is changing hands too fast' using errcode = 'serialization_failure';
  end if;
end $$;

-- The same verb for SQL callers in any language: `select * from atlas_enqueue('acme', 'report.build', '{"month": 3}')`.
create function atlas_enqueue(
  tenant text, job_type text, input jsonb default '{}', priority int default 0, run_at timestamptz default null,
  max_retries int default null, dedupe_key text default null, correlation_id text default null, source text default 'manual',
  source_ref text default null, actor text default session_user,
  out id uuid, out deduplicated boolean
) language plpgsql volatile as $$
#variable_conflict use_variable
declare
  owner uuid;
  found_id uuid;
  meta jsonb := jsonb_build_object('job_type', atlas_enqueue.job_type);
begin
  select t.id into owner from tenants t where t.slug = atlas_enqueue.tenant or t.id::text = atlas_enqueue.tenant;
  if owner is null then
    raise exception 'there is no tenant %', atlas_enqueue.tenant using errcode = 'AT404', detail = atlas_enqueue.tenant;
  end if;
  if jsonb_typeof(atlas_enqueue.input) <> 'object' then
    raise exception 'the input of a job is a JSON object, not %', jsonb_typeof(atlas_enqueue.input) using errcode = 'AT422';
  end if;
  if octet_length(atlas_enqueue.input::text) > atlas_input_limit(atlas_enqueue.job_type) then
    raise exception 'the input of a % job is at most % bytes', atlas_enqueue.job_type, atlas_input_limit(atlas_enqueue.job_type)
      using errcode = 'AT422';
  end if;
  id := gen_random_uuid();
  select e.id into found_id from atlas_enqueue_many(
    'user', atlas_enqueue.actor, false, array[id], array[owner], array[atlas_canonical_type(atlas_enqueue.job_type)],
    array[atlas_enqueue.input], array[meta], null,
    p_priority => array[atlas_enqueue.priority], p_run_at => array[atlas_enqueue.run_at],
    p_max_retries => array[atlas_enqueue.max_retries],
    p_dedupe_key => case when atlas_enqueue.dedupe_key is not null then array[
      case when length(atlas_enqueue.dedupe_key) > 200 then encode(sha256(convert_to(atlas_enqueue.dedupe_key, 'UTF8')), 'hex')
           else atlas_enqueue.dedupe_key end] end,
    p_dedupe_hash => case when atlas_enqueue.dedupe_key is not null then
      array[sha256(convert_to(atlas_enqueue.dedupe_key, 'UTF8'))] end,
    p_correlation => array[atlas_enqueue.correlation_id], p_source => array[atlas_enqueue.source],
    p_source_ref => array[atlas_enqueue.source_ref]) e;
  deduplicated := found_id is not null;
  id := coalesce(found_id, id);
end $$;

-- Other spellings of a job type, stored as the one that workers serve.
create function atlas_canonical_type(job_type text) returns text language sql immutable parallel safe as $$
  select case when job_type in ('EMAILSEND', 'email_send') then 'EMAIL_SEND' else job_type end
$$;

create function atlas_input_limit(job_type text) returns int language sql immutable parallel safe as $$
  select case when atlas_canonical_type(job_type) = 'EMAIL_SEND' then 3 * 1024 * 1024 else 256 * 1024 end
$$;

-- Cancel: what is queued ends at once, what runs is asked to stop. Each job answers what became of it.
create function atlas_cancel(p_ids uuid[], p_tenant uuid, p_actor_type text, p_actor_id text, p_meta jsonb)
returns table (id uuid, verdict text) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  -- Locked first, in order: the statements after this one see the rows as they will stay.
  perform from jobs where id = any (p_ids) and (p_tenant is null or tenant_id = p_tenant) order by id for update;
  return query
  with ended as (
    update jobs
    set status = 'canceled', finished_at = clock_timestamp(), updated_at = clock_timestamp(), next_retry_at = null,
        cancel_requested_at = clock_timestamp(), cancel_requested_by = p_actor_id
    where id = any (p_ids) and (p_tenant is null or tenant_id = p_tenant) and status = 'queued'
    returning id, tenant_id, 'canceled'::text as verdict),
  asked as (
    update jobs
    set cancel_requested_at = clock_timestamp(), cancel_requested_by = p_actor_id, updated_at = clock_timestamp()
    where id = any (p_ids) and (p_tenant is null or tenant_id = p_tenant) and status = 'running' and cancel_requested_at is null
    returning id, tenant_id, 'requested'::text as verdict),
  changed as (select * from ended union all select * from asked),
  aud as (
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    select c.tenant_id, p_actor_type::actor_type, p_actor_id, e.action, 'job', c.id, p_meta,
      atlas_audit_body(c.tenant_id, p_actor_type, p_actor_id, 'info', e.action, 'job', c.id::text, '', p_meta)
    from changed c
    cross join lateral (select case c.verdict when 'canceled' then 'JOB_CANCELED' else 'JOB_CANCEL_REQUESTED' end as action) e)
  select c.id, c.verdict from changed c
  union all
  select j.id, case when j.status = 'running' then 'requested' else 'ended' end
  from jobs j
  where j.id = any (p_ids) and (p_tenant is null or j.tenant_id = p_tenant)
    and not exists (select from changed c where c.id = j.id);
  perform atlas_wake_parents(array(
    select distinct j.parent_run_id from jobs j
    where j.id = any (p_ids) and j.status = 'canceled' and j.parent_run_id is not null));
  perform atlas_runs_ended(array(
    select j.id from jobs j where j.id = any (p_ids) and j.status = 'canceled' and j.job_type = 'ENGINE_RUN'));
  perform pg_notify('atlas_cancel', '');
end $$;

-- An operator's retry: failed or canceled -> queued, as new. A job whose dedupe key is held by another stays as it is.
create function atlas_retry(p_ids uuid[], p_tenant uuid, p_actor_type text, p_actor_id text, p_meta jsonb)
returns table (id uuid, verdict text) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  one record;
  runs uuid[] := '{}';
begin
  for one in
    select id, tenant_id, status, job_type from jobs
    where id = any (p_ids) and (p_tenant is null or tenant_id = p_tenant) order by id for update
  loop
    id := one.id;
    if one.status not in ('failed', 'canceled') then
      verdict := one.status::text;
      return next;
      continue;
    end if;
    begin
      update jobs
      set status = 'queued', retry_count = 0, lost_count = 0, careful = false, next_retry_at = null, dead_lettered_at = null,
          finished_at = null, claimed_by = null, cancel_requested_at = null, cancel_requested_by = null, progress = null,
          updated_at = clock_timestamp()
      where id = one.id and status in ('failed', 'canceled');
      insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
      values (one.tenant_id, p_actor_type::actor_type, p_actor_id, 'JOB_RETRIED', 'job', one.id, p_meta,
        atlas_audit_body(one.tenant_id, p_actor_type, p_actor_id, 'info', 'JOB_RETRIED', 'job', one.id::text, '', p_meta));
      verdict := 'retried';
      if one.job_type = 'ENGINE_RUN' then
        runs := runs || one.id;
      end if;
    exception
      when unique_violation then verdict := 'conflict';
    end;
    return next;
  end loop;
  perform atlas_runs_reopened(runs);
  perform pg_notify('atlas_jobs', '');
end $$;

-- Turn the gate. The exclusive lock waits for the claims in flight, at most five seconds; after the commit
-- none is granted until it is turned again. Touches no job row.
create function atlas_switch(
  p_online boolean, p_reason text, p_for float8, p_actor_type text, p_actor_id text, p_meta jsonb
) returns jsonb language plpgsql volatile as $$
declare
  patience text := current_setting('lock_timeout');
  state jsonb;
  word text := case when p_online then 'ATLAS_ONLINE' else 'ATLAS_OFFLINE' end;
  facts jsonb;
begin
  perform set_config('lock_timeout', '5s', true);
  perform pg_advisory_xact_lock(42710, 0);
  perform set_config('lock_timeout', patience, true);
  state := jsonb_build_object(
    'online', p_online, 'reason', p_reason, 'by', p_actor_id, 'since', clock_timestamp(),
    'until', case when p_for is not null then clock_timestamp() + p_for * interval '1 second' end);
  insert into system_state as s (key, value, updated_by)
  values ('atlas_online', state || '{"engine_enabled": true}', p_actor_id)
  on conflict (key) do update
    set value = s.value || state, updated_at = clock_timestamp(), updated_by = p_actor_id
  returning s.value into state;
  facts := p_meta || jsonb_strip_nulls(jsonb_build_object('until', state->'until'));
  insert into audit_log (actor_type, actor_id, action, entity_type, entity_id, message, meta, body)
  values (p_actor_type::actor_type, p_actor_id, word, 'system_state', 'atlas_online', coalesce(p_reason, ''), facts,
    atlas_audit_body(null, p_actor_type, p_actor_id, 'info', word, 'system_state', 'atlas_online', coalesce(p_reason, ''), facts));
  perform pg_notify('atlas_gate', '');
  return state;
end $$;

-- Back online by itself: what `offline --for` promised. Does nothing unless the time named has come.
create function atlas_gate_expire() returns boolean language plpgsql volatile as $$
begin
  if not exists (select from system_state where key = 'atlas_online' and value->>'online' = 'false'
                 and (value->>'until')::timestamptz <= clock_timestamp()) then
    return false;
  end if;
  if not pg_try_advisory_xact_lock(42710, 0) then
    return false;
  end if;
  -- Looked at again under the lock: an operator may have turned it meanwhile.
  if not exists (select from system_state where key = 'atlas_online' and value->>'online' = 'false'
                 and (value->>'until')::timestamptz <= clock_timestamp()) then
    return false;
  end if;
  perform atlas_switch(true, 'the time it was taken offline for is over', null, 'system', 'watchdog', '{}');
  return true;
end $$;
