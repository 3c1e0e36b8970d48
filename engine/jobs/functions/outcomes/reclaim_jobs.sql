-- running -> queued, failed or canceled, for jobs whose lease is over; the caller holds their rows. A mail that a provider had
-- been asked to send may be sent: its attempt, its audit row and, if it is not tried again, its job say that the outcome is
-- unknown. The loss counts for one; for none where the worker's watchdog names another job, and for enough to run alone where it names
-- this one. Guards stand in a case, opaque to the planner, so that the key is the only way in. Called by reap_leases and claim_leased.
create or replace function reclaim_jobs(p_ids uuid[]) returns table (id uuid, worker_id text, verdict text) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off as $$
#variable_conflict use_column
begin
  return query
  with held as (
    select j.*, w.worker_id, loss_reason(w.stall, w.suspect_job_id, j.id) as reason,
      j.lost_count + case when w.stall is null or w.suspect_job_id is null then 1
                          when w.suspect_job_id = j.id then greatest(1, alone_after_losses() - j.lost_count)
                          else 0 end as losses
    from only jobs j
    left join job_workers w on w.worker_id = j.claimed_by
    where j.id = any (p_ids) and case when j.status = 'running' then true else false end),
  lost as (
    select j.id, j.tenant_id, j.claimed_by, j.attempt_count, j.started_at, j.host_id, j.losses, j.reason,
      case when j.cancel_requested_at is not null then 'canceled'
           when j.losses = j.lost_count or j.losses < poison_after_losses() then 'requeued'
           when j.worker_id is null or j.losses >= losses_until_poison(j.id, j.claimed_by, j.lost_count) then 'poisoned'
           else 'requeued' end as verdict,
      case when exists (
        select from only effects e
        where e.job_id = j.id and e.name like '%.mail' and e.state in ('intended', 'unknown')) or exists (
        select from only mail_ledger m
        where m.job_id = j.id and m.state in ('sending', 'unknown', 'ordered', 'resending')
          and not exists (select from only effects e where e.job_id = j.id and e.name = m.provider || '.mail')) then 'unknown' end as outcome
    from held j),
  moved as (
    update only jobs j
    set status = case l.verdict when 'requeued' then 'queued' when 'poisoned' then 'failed' else 'canceled' end::job_status,
        lost_count = l.losses,
        careful = j.careful or l.losses > j.lost_count,
        claimed_by = case when l.verdict <> 'requeued' then j.claimed_by end,
        lease_expires_at = null,
        -- Up to two seconds of jitter, so that what one crash dropped does not return as one wave. What must run alone returns after it: a
        -- worker would run it first, and may be lost to it while the others wait.
        next_retry_at = case when l.verdict = 'requeued' then
          clock_timestamp() + (1 + 2 * random() + case when l.losses >= alone_after_losses() then 3 else 0 end) * interval '1 second' end,
        start_by = case when l.verdict = 'requeued' then j.finish_by else j.start_by end,
        finished_at = case when l.verdict <> 'requeued' then clock_timestamp() end,
        dead_lettered_at = case when l.verdict = 'poisoned' then clock_timestamp() end,
        error = case when l.verdict = 'poisoned' then jsonb_strip_nulls(jsonb_build_object(
            'type', 'Poison', 'message', 'Workers were lost while they ran this job; it is quarantined. ' || split_part(l.reason, E'\n', 1),
            'attemptedAt', j.started_at, 'retryCount', j.retry_count, 'lostTo', l.claimed_by, 'outcome', l.outcome)) else j.error end,
        updated_at = clock_timestamp()
    from lost l
    where j.id = l.id
      and case when j.status = 'running' and j.claimed_by = l.claimed_by and j.attempt_count = l.attempt_count then true else false end
    returning j.id, l.tenant_id, l.claimed_by, l.attempt_count, j.due_at, l.started_at, l.host_id, l.verdict, l.outcome, l.reason),
  att as (
    insert into job_attempts (job_id, attempt_no, worker_id, host_id, status, due_at, started_at, finished_at, duration_ms, error_text,
      outcome)
    select m.id, m.attempt_count, m.claimed_by, m.host_id, 'lost', m.due_at, m.started_at, clock_timestamp(),
      least(2147483647, extract(epoch from clock_timestamp() - m.started_at) * 1000),
      m.reason, m.outcome
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
      audit_body(e.tenant_id, 'system', 'reaper', e.level, e.action, 'job', e.entity_id, e.message, e.meta)
    from events e)
  select m.id, m.claimed_by, m.verdict from moved m;
  perform wake_parents(array(
    select distinct j.parent_run_id from only jobs j
    where j.id = any (p_ids) and case when j.status in ('failed', 'canceled') and j.parent_run_id is not null then true else false end));
  perform runs_ended(array(
    select j.id from only jobs j
    where j.id = any (p_ids) and case when j.status in ('failed', 'canceled') and j.job_type = 'ENGINE_RUN' then true else false end));
end $$;
