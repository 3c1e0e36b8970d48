-- running -> what each outcome says, for many jobs, with their audit rows, attempts and personal values.
-- Fenced by worker, attempt and a live lease: a job that is no longer this worker's is not changed and comes back as
-- 'lease_lost'; one that was asked to stop is not requeued and comes back as 'cancel_requested'. Nothing else is returned.
-- Ids come sorted. p_status 'queued' with p_delay is a retry, a snooze or a release. An array that is null throughout is passed
-- as null; attempt, status, action, level, message and meta that are the same for all are passed as an array of one.
-- Bytes of an event that come as null are made here, with the digest of the output where meta has `output_sha256`, and with what the
-- job has cost where this attempt adds to it.
-- Locks: job rows in ascending id, then the rows of their parents. Called by turn.
create or replace function finish(
  p_worker text, p_lease float8, p_id uuid[], p_attempt int[], p_status text[], p_output jsonb[], p_error jsonb[], p_delay float8[],
  p_used int[], p_cost int[], p_action text[], p_level text[], p_message text[], p_meta jsonb[], p_body bytea[], p_detail jsonb[],
  p_private jsonb[]
) returns setof turn_row language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  every_attempt constant int := case when cardinality(p_attempt) = 1 then p_attempt[1] end;
  every_status constant text := case when cardinality(p_status) = 1 then p_status[1] end;
  every_action constant text := case when cardinality(p_action) = 1 then p_action[1] end;
  every_level constant text := coalesce(case when cardinality(p_level) = 1 then p_level[1] end, 'info');
  every_message constant text := coalesce(case when cardinality(p_message) = 1 then p_message[1] end, '');
  every_meta constant jsonb := coalesce(case when cardinality(p_meta) = 1 then p_meta[1] end, '{}');
  alive constant boolean := p_lease is not null or exists (
    select from job_workers w
    where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp());
  opening text;
  closing text;
  done uuid[];
  parents uuid[];
  runs uuid[];
begin
  -- Two ways to the same end. Most batches hold plain successes, which need half of the work: either no event comes with its bytes,
  -- and all are alike but for their ids, or every one does.
  -- The fence stands in a case, opaque to the planner, so that the key is the only way in.
  if every_status = 'succeeded' and every_action is not null and every_level = 'info' and every_message = ''
     and every_attempt is not null and num_nulls(p_error, p_delay, p_used, p_cost, p_detail, p_private) = 6
     and (case when p_body is null then cardinality(p_meta) = 1 and not every_meta ? 'output_sha256'
               else array_position(p_body, null) is null end) then
    if p_body is null then
      select b.opening, b.closing into opening, closing
      from audit_body_frame('system', p_worker, 'info', every_action, 'job', '', every_meta) b;
    end if;
    with fin as (
      update only jobs j
      set status = 'succeeded', output = coalesce(u.output, j.output), finished_at = clock_timestamp(), updated_at = clock_timestamp(),
          lease_expires_at = null
      from unnest(p_id, p_output, p_meta, p_body) u(id, output, meta, body)
      where j.id = u.id
        and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = every_attempt
                  and case when j.lease_expires_at is null then alive else j.lease_expires_at > clock_timestamp() end
            then true else false end
      returning j.id, j.tenant_id, j.parent_run_id as parent, case when j.job_type = 'ENGINE_RUN' then j.id end as run, u.meta, u.body),
    aud as (
      insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
      select f.tenant_id, 'system', p_worker, 'info', every_action, 'job', f.id, '', coalesce(f.meta, every_meta),
        coalesce(f.body, convert_to(opening || f.id::text || closing || f.tenant_id::text || '"}', 'UTF8'))
      from fin f)
    select array_agg(f.id), array_agg(f.parent) filter (where f.parent is not null), array_agg(f.run) filter (where f.run is not null)
    into done, parents, runs from fin f;
  else
    with fin as (
      update only jobs j
      set status = u.status::job_status,
          output = coalesce(u.output, j.output),
          error = case when u.error is null then j.error
                       else u.error || jsonb_build_object('attemptedAt',
                         to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) end,
          retry_count = j.retry_count + coalesce(u.used, 0),
          -- The number by which it was decided. A job that chose one keeps it.
          max_retries = case when j.retries_chosen then j.max_retries
                             else coalesce((u.detail->>'max_retries')::int, j.max_retries) end,
          cost_cents = j.cost_cents + coalesce(u.cost, 0),
          next_retry_at = case when u.status = 'queued' and u.delay > 0 then statement_timestamp() + u.delay * interval '1 second' end,
          finished_at = case when u.status <> 'queued' then clock_timestamp() end,
          updated_at = clock_timestamp(),
          claimed_by = case when u.status <> 'queued' then j.claimed_by end,
          lease_expires_at = null,
          -- An attempt has begun, unless it was only released: from now on its end alone is bounded.
          start_by = case when u.status = 'queued' and u.delay is not null then j.finish_by else j.start_by end,
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
      returning j.id, j.tenant_id, j.attempt_count, j.due_at, j.started_at, j.host_id, u.action, u.level, u.message,
        case when u.meta ? 'output_sha256' or u.cost is not null then u.meta
          || case when u.meta ? 'output_sha256' then jsonb_build_object('output_sha256', content_digest(j.output)) else '{}' end
          || case when u.cost is not null then jsonb_build_object('job_cost_cents', j.cost_cents) else '{}' end
          else u.meta end as meta,
        u.body,
        u.detail, u.private, case when u.status <> 'queued' then j.parent_run_id end as parent,
        case when j.job_type = 'ENGINE_RUN' and u.status <> 'queued' then j.id end as run),
    aud as (
      insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
      select f.tenant_id, 'system', p_worker, f.level::audit_level, f.action, 'job', f.id, f.message, f.meta,
        coalesce(f.body, audit_body(f.tenant_id, 'system', p_worker, f.level, f.action, 'job', f.id::text, f.message, f.meta))
      from fin f where f.action is not null),
    att as (
      insert into job_attempts (job_id, attempt_no, worker_id, host_id, pid, status, due_at, started_at, finished_at, duration_ms,
        exit_code, stdout_tail, stderr_tail, log_tail, error_text, outcome, result, log_ref)
      select f.id, f.attempt_count, p_worker, f.host_id, (f.detail->>'pid')::int, (f.detail->>'status')::attempt_status,
        f.due_at, f.started_at, clock_timestamp(), least(2147483647, extract(epoch from clock_timestamp() - f.started_at) * 1000),
        (f.detail->>'exit_code')::int, f.detail->>'stdout_tail', f.detail->>'stderr_tail', f.detail->>'log_tail',
        f.detail->>'error_text', f.detail->>'outcome', coalesce(f.detail->'result', '{}'), f.detail->>'log_ref'
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
    perform wake_parents(parents);
  end if;
  if runs is not null then
    perform runs_ended(runs);
  end if;
  if done is null or cardinality(done) < cardinality(p_id) then
    return query
    select (turn_signal(
        case when j.cancel_requested_at is not null and j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = u.attempt
          then 'cancel_requested' else 'lease_lost' end::turn_kind, u.id, p_number => u.attempt)).*
    from (select a.id, coalesce(a.attempt, every_attempt) from unnest(p_id, p_attempt) a(id, attempt)) u(id, attempt)
    left join only jobs j on j.id = u.id
    where done is null or u.id <> all (done);
  end if;
end $$;
