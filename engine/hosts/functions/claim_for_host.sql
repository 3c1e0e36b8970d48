-- queued -> running for one host: at most one job, under a lease of its own. Requeues what the host held before under a lapsed lease.
-- Rows: claimed; closed; busy; running, it has a job already. No row: nothing is due, a limit holds it, or its definition is
-- disabled. Locks: gate, host, job rows, limits. Called by engine/hosts.
create or replace function claim_for_host(p_host uuid, p_lease float8) returns setof turn_row language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  signal turn_row;
  claimant text := 'host:' || p_host;
  best record;
  cap int;
  most int;
  -- Types that are not begun now: their definition is disabled, or as many as may run are running.
  full_types text[] := array(select d.key from job_definitions d where not d.is_active);
begin
  if not may_claim(null) then
    signal.kind := 'closed';
    return next signal;
    return;
  end if;
  if not pg_try_advisory_xact_lock(lock_class('host'), hashtext(p_host::text)) then
    signal.kind := 'busy';
    return next signal;
    return;
  end if;
  -- What this host fell silent on goes back first: its return need not wait for the watchdog.
  perform reclaim_jobs(array(
    select j.id from jobs j
    where j.claimed_by = claimant and j.status = 'running' and j.lease_expires_at < clock_timestamp()
    order by j.id for update skip locked));
  if exists (select from jobs j where j.claimed_by = claimant and j.status = 'running') then
    signal.kind := 'running';
    return next signal;
    return;
  end if;
  perform promote_due(200);
  -- The best job whose type has room. Each round sets one full type aside.
  loop
    select j.ctid as at, j.job_type, j.tenant_id into best
    from jobs j
    join hosts h on h.id = j.host_id and h.tenant_id = j.tenant_id and h.is_active
    where j.status = 'queued' and j.next_retry_at is null and j.host_id = p_host and j.job_type <> all (full_types)
    order by j.priority desc, j.created_at limit 1
    for update of j skip locked;
    exit when not found;
    cap := (select (t.limits->>'in_flight')::int from tenants t where t.id = best.tenant_id);
    most := (select y.concurrency from job_types y where y.key = best.job_type);
    if cap is not null or most is not null then
      if not pg_try_advisory_xact_lock(lock_class('limits'), 0) then
        signal.kind := 'busy';
        return next signal;
        return;
      end if;
      if (select count(*) from jobs r where r.status = 'running' and r.tenant_id = best.tenant_id) >= cap then
        return;
      end if;
      if (select count(*) from jobs r where r.status = 'running' and r.job_type = best.job_type) >= most then
        full_types := full_types || best.job_type;
        continue;
      end if;
    end if;
    return query
    update jobs
    set status = 'running', started_at = clock_timestamp(), updated_at = clock_timestamp(), claimed_by = claimant,
        attempt_count = attempt_count + 1, lease_expires_at = clock_timestamp() + p_lease * interval '1 second'
    where ctid = best.at and status = 'queued'
    returning 'claimed'::turn_kind, id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count,
      coalesce(timeout_seconds, (select y.timeout_seconds from job_types y where y.key = jobs.job_type)), definition_id,
      parent_run_id, correlation_id, server_instance_id, lost_count >= alone_after_losses();
    return;
  end loop;
end $$;
