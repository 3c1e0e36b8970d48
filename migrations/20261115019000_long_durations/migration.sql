-- A job may have run for longer than 24.8 days, the most milliseconds an int holds: after a restore, or on a machine that slept.
-- Its duration then is that most, so that taking it back, ending it and telling of it work as ever.

-- What becomes of jobs whose lease is over. The caller holds their rows. A mail that a provider had been asked to send may be
-- out: its attempt, its event and, if it is not tried again, its job say that the outcome is unknown.
create or replace function atlas_reclaim(p_ids uuid[]) returns table (id uuid, worker_id text, verdict text) language plpgsql volatile as $$
#variable_conflict use_column
begin
  return query
  with lost as (
    select j.id, j.tenant_id, j.claimed_by, j.attempt_count, j.started_at, j.host_id,
      case when j.cancel_requested_at is not null then 'canceled'
           when j.lost_count >= 2 then 'poisoned'
           else 'requeued' end as verdict,
      case when exists (select from mail_ledger m where m.job_id = j.id and m.state = 'sending') then 'unknown' end as outcome
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
        error = case when l.verdict = 'poisoned' then jsonb_strip_nulls(jsonb_build_object(
            'type', 'Poison', 'message', 'Three workers were lost while they ran this job; it is quarantined.',
            'attemptedAt', j.started_at, 'retryCount', j.retry_count, 'lostTo', l.claimed_by, 'outcome', l.outcome)) else j.error end,
        updated_at = clock_timestamp()
    from lost l
    where j.id = l.id and j.status = 'running' and j.claimed_by = l.claimed_by and j.attempt_count = l.attempt_count
    returning j.id, l.tenant_id, l.claimed_by, l.attempt_count, l.started_at, l.host_id, l.verdict, l.outcome),
  att as (
    insert into job_attempts (job_id, attempt_no, worker_id, host_id, status, started_at, finished_at, duration_ms, error_text,
      outcome)
    select m.id, m.attempt_count, m.claimed_by, m.host_id, 'lost', m.started_at, clock_timestamp(),
      least(2147483647, extract(epoch from clock_timestamp() - m.started_at) * 1000),
      'The lease expired before an outcome was recorded.', m.outcome
    from moved m),
  events as (
    select m.tenant_id, m.id::text as entity_id, m.claimed_by as message,
      case m.verdict when 'requeued' then 'LEASE_EXPIRED' when 'poisoned' then 'JOB_POISONED' else 'JOB_CANCELED' end as action,
      case m.verdict when 'poisoned' then 'error' else 'warn' end as level,
      jsonb_strip_nulls(jsonb_build_object('attempt', m.attempt_count, 'worker', m.claimed_by, 'outcome', m.outcome)) as meta
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

-- A turn: finish what is done, then claim. Finish alone with p_slots = p_prefetch = 0, claim alone with empty arrays.
-- Rows: c claimed; l finish refused, the lease is lost; k finish refused, a cancel was asked for;
--       x the gate is closed or this worker is not alive; b the careful lane is busy, ask again; m more was set aside, ask again;
--       s a job that must run alone waits: ask for it with p_alone when nothing is held. Then it is all that is claimed.
-- Ids come sorted. p_status 'queued' with p_delay is a retry, a snooze or a release. An array that is null throughout is passed
-- as null; attempt, status, action, level, message and meta that are the same for all are passed as an array of one.
-- The bytes of an event that come as null are made here.
create or replace function atlas_turn(
  p_worker text, p_slots int, p_prefetch int, p_types text[], p_lease float8,
  p_id uuid[], p_attempt int[], p_status text[], p_output jsonb[], p_error jsonb[], p_delay float8[], p_used int[],
  p_cost int[], p_action text[], p_level text[], p_message text[], p_meta jsonb[], p_body bytea[], p_detail jsonb[],
  p_private jsonb[], p_alone boolean default false
) returns table (
  kind "char", id uuid, tenant_id uuid, job_type text, input jsonb, attempt_count int, retry_count int, max_retries int,
  lost_count int, timeout_seconds int, definition_id uuid, parent_run_id uuid, correlation_id text
) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  alive boolean;
  every_attempt int;
  every_status text;
  every_action text;
  every_level text;
  every_message text;
  every_meta jsonb;
  opening text;
  closing text;
  done uuid[];
  parents uuid[];
  runs uuid[];
  want int := p_slots + p_prefetch;
  picked tid[];
  careful_picked tid[];
  solo tid;
  some_are_due boolean;
  some_are_careful boolean;
  some_are_limited boolean;
begin
  if cardinality(p_id) > 0 then
    every_attempt := case when cardinality(p_attempt) = 1 then p_attempt[1] end;
    every_status := case when cardinality(p_status) = 1 then p_status[1] end;
    every_action := case when cardinality(p_action) = 1 then p_action[1] end;
    every_level := coalesce(case when cardinality(p_level) = 1 then p_level[1] end, 'info');
    every_message := coalesce(case when cardinality(p_message) = 1 then p_message[1] end, '');
    every_meta := coalesce(case when cardinality(p_meta) = 1 then p_meta[1] end, '{}');
    alive := p_lease is not null or exists (
      select from job_workers w
      where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp());
    -- Two ways to the same end. Most batches hold plain successes, which need half of the work.
    -- The fence stands in a case, opaque to the planner, so that the key is the only way in.
    if every_status = 'succeeded' and every_action is not null and every_level = 'info' and every_message = ''
       and every_attempt is not null and cardinality(p_meta) = 1
       and num_nulls(p_error, p_delay, p_used, p_cost, p_body, p_detail, p_private) = 7 then
      opening := format('{"action":%s,"actor_id":%s,"actor_type":"system","entity_id":"', to_json(every_action), to_json(p_worker));
      closing := format('","entity_type":"job","level":"info","message":"","meta":%s,"tenant_id":"', every_meta);
      with fin as (
        update jobs j
        set status = 'succeeded', output = coalesce(u.output, j.output), finished_at = clock_timestamp(), updated_at = clock_timestamp(),
            lease_expires_at = null
        from unnest(p_id, p_output) u(id, output)
        where j.id = u.id
          and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = every_attempt
                    and case when j.lease_expires_at is null then alive else j.lease_expires_at > clock_timestamp() end
              then true else false end
        returning j.id, j.tenant_id, j.parent_run_id as parent, case when j.job_type = 'ENGINE_RUN' then j.id end as run),
      aud as (
        insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
        select f.tenant_id, 'system', p_worker, 'info', every_action, 'job', f.id, '', every_meta,
          convert_to(opening || f.id::text || closing || f.tenant_id::text || '"}', 'UTF8')
        from fin f)
      select array_agg(f.id), array_agg(f.parent) filter (where f.parent is not null), array_agg(f.run) filter (where f.run is not null)
      into done, parents, runs from fin f;
    else
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
        from (
          select a.id, coalesce(a.attempt, every_attempt) as attempt, coalesce(a.status, every_status) as status, a.output, a.error,
            a.delay, a.used, a.cost, coalesce(a.action, every_action) as action, coalesce(a.level, every_level) as level,
            coalesce(a.message, every_message) as message, coalesce(a.meta, every_meta) as meta, a.body, a.detail, a.private
          from unnest(p_id, p_attempt, p_status, p_output, p_error, p_delay, p_used, p_cost, p_action, p_level, p_message, p_meta,
                      p_body, p_detail, p_private)
            a(id, attempt, status, output, error, delay, used, cost, action, level, message, meta, body, detail, private)) u
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
        select f.tenant_id, 'system', p_worker, f.level::audit_level, f.action, 'job', f.id, f.message, f.meta,
          coalesce(f.body, atlas_audit_body(f.tenant_id, 'system', p_worker, f.level, f.action, 'job', f.id::text, f.message, f.meta))
        from fin f where f.action is not null),
      att as (
        insert into job_attempts (job_id, attempt_no, worker_id, host_id, pid, status, started_at, finished_at, duration_ms,
          exit_code, stdout_tail, stderr_tail, error_text, outcome, result, log_ref)
        select f.id, f.attempt_count, p_worker, f.host_id, (f.detail->>'pid')::int, (f.detail->>'status')::attempt_status,
          f.started_at, clock_timestamp(), least(2147483647, extract(epoch from clock_timestamp() - f.started_at) * 1000),
          (f.detail->>'exit_code')::int, f.detail->>'stdout_tail', f.detail->>'stderr_tail', f.detail->>'error_text',
          f.detail->>'outcome', coalesce(f.detail->'result', '{}'), f.detail->>'log_ref'
        from fin f where p_detail is not null and f.detail is not null),
      priv as (
        insert into audit_private (commitment, tenant_id, entity_id, field, salt, value)
        select decode(x.commitment, 'hex'), f.tenant_id, x.entity_id, x.field, decode(x.salt, 'hex'), x.value
        from fin f
        cross join lateral jsonb_to_recordset(f.private)
          x(commitment text, field text, salt text, value text, entity_id text)
        where p_private is not null and f.private is not null)
      select array_agg(f.id), array_agg(f.parent) filter (where f.parent is not null), array_agg(f.run) filter (where f.run is not null)
      into done, parents, runs from fin f;
    end if;
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
      from (select a.id, coalesce(a.attempt, every_attempt) from unnest(p_id, p_attempt) a(id, attempt)) u(id, attempt)
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
    select
      exists (select from jobs j where j.status = 'queued' and j.next_retry_at <= statement_timestamp()),
      exists (select from jobs j where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and j.careful),
      exists (select from job_types y where y.concurrency is not null and (p_types is null or y.key = any (p_types)))
        or exists (select from tenants x where x.limits ? 'in_flight')
    into some_are_due, some_are_careful, some_are_limited;
    -- Most of the time nothing is due, careful or limited, and one type is served: then claiming is one statement.
    if not some_are_due and not some_are_careful and not some_are_limited and cardinality(p_types) = 1 then
      return query
      update jobs
      set status = 'running', started_at = clock_timestamp(), updated_at = clock_timestamp(), claimed_by = p_worker,
          attempt_count = attempt_count + 1, lease_expires_at = clock_timestamp() + p_lease * interval '1 second'
      where ctid = any (array(
          select j.ctid from jobs j
          where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful and j.job_type = p_types[1]
          order by j.priority desc, j.created_at limit want for update skip locked))
        and status = 'queued'
      returning 'c'::"char", id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds,
        definition_id, parent_run_id, correlation_id;
      return;
    end if;
    if some_are_due then
      perform atlas_promote(greatest(200, 2 * want));
    end if;
    -- What was promoted just now may be for the careful lane.
    careful_picked := case when some_are_due or some_are_careful then atlas_pick_careful(p_types, p_slots) else '{}' end;
    if careful_picked is null then
      return query select 'b'::"char", null::uuid, null::uuid, null::text, null::jsonb, null::int, null::int, null::int, null::int,
        null::int, null::uuid, null::uuid, null::text;
    end if;
    if cardinality(careful_picked) > 0 then
      -- A job that was lost twice is claimed by a process that holds nothing else, so that nobody is lost with it a third time.
      solo := (
        select j.ctid from jobs j where j.ctid = any (careful_picked) and j.lost_count >= 2
        order by j.priority desc, j.created_at limit 1);
    end if;
    if solo is not null and not p_alone then
      careful_picked := array(select j.ctid from jobs j where j.ctid = any (careful_picked) and j.lost_count < 2);
      return query select 's'::"char", null::uuid, null::uuid, null::text, null::jsonb, null::int, null::int, null::int, null::int,
        null::int, null::uuid, null::uuid, null::text;
    end if;
    picked := case when solo is not null and p_alone then '{}' else atlas_pick(p_types, want) end;
    if cardinality(picked) > 0 and some_are_limited then
      -- Picked jobs under a limit go to the careful lane, where the next turn counts them.
      want := cardinality(picked);
      picked := atlas_set_aside(picked);
      if cardinality(picked) < want then
        return query select 'm'::"char", null::uuid, null::uuid, null::text, null::jsonb, null::int, null::int, null::int, null::int,
          null::int, null::uuid, null::uuid, null::text;
      end if;
    end if;
    if solo is not null and p_alone then
      picked := array[solo];
    elsif cardinality(careful_picked) > 0 then
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

-- Every attempt of every job alike. An attempt that runs or simply succeeded is told by the job row itself.
create or replace view job_runs with (security_invoker = true) as
select a.job_id || ':' || a.attempt_no as job_run_id, a.job_id, a.attempt_no, j.tenant_id, j.job_type, a.worker_id, a.host_id,
  a.pid, a.status, a.started_at, a.finished_at, a.duration_ms, a.exit_code, a.stdout_tail, a.stderr_tail,
  a.error_text, a.outcome, a.result, a.log_ref
from job_attempts a
join jobs j on j.id = a.job_id
union all
select j.id || ':' || j.attempt_count, j.id, j.attempt_count, j.tenant_id, j.job_type, j.claimed_by, j.host_id,
  null, (case when j.status = 'running' then 'running' else 'succeeded' end)::attempt_status, j.started_at, j.finished_at,
  case when j.finished_at is not null then least(2147483647, extract(epoch from j.finished_at - j.started_at) * 1000) end::int,
  null, null, null,
  null, null, case when j.status = 'running' then '{}' else j.output end, null
from jobs j
where j.status in ('running', 'succeeded')
  and j.attempt_count > 0
  and not exists (select from job_attempts a where a.job_id = j.id and a.attempt_no = j.attempt_count);
