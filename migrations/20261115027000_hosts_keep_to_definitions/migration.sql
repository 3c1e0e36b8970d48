-- What a definition or a type says holds for hosts and workers outside too: no job of a disabled definition is begun, and a job
-- without a time limit of its own has its type's.

-- The next job of a host: queued -> running under a lease of its own, claimed by host:<id>.
-- Rows: c claimed; x the gate is closed; r the host has a running job; b someone else is counting, ask again.
-- No row: nothing is due, a limit holds it, or its definition is disabled.
-- Its advisory lock (42713, hash of host) comes after the gate's and lets one claim of a host through at a time;
-- the careful lane's (42712, 0) is only tried, so that it may come after a row's.
create or replace function atlas_host_next(p_host uuid, p_lease float8) returns table (
  kind "char", id uuid, tenant_id uuid, job_type text, input jsonb, attempt_count int, retry_count int, max_retries int,
  lost_count int, timeout_seconds int, definition_id uuid, parent_run_id uuid, correlation_id text, server_instance_id uuid
) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  claimant text := 'host:' || p_host;
  best record;
  cap int;
  most int;
  -- Types that are not begun now: their definition is disabled, or as many as may run are running.
  full_types text[] := array(select d.key from job_definitions d where not d.is_active);
begin
  if not atlas_claim_open(null) then
    kind := 'x';
    return next;
    return;
  end if;
  if not pg_try_advisory_xact_lock(42713, hashtext(p_host::text)) then
    kind := 'b';
    return next;
    return;
  end if;
  -- What this host fell silent on goes back first: its return need not wait for the watchdog.
  perform atlas_reclaim(array(
    select j.id from jobs j
    where j.claimed_by = claimant and j.status = 'running' and j.lease_expires_at < clock_timestamp()
    order by j.id for update skip locked));
  if exists (select from jobs j where j.claimed_by = claimant and j.status = 'running') then
    kind := 'r';
    return next;
    return;
  end if;
  perform atlas_promote(200);
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
      if not pg_try_advisory_xact_lock(42712, 0) then
        kind := 'b';
        return next;
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
    returning 'c'::"char", id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count,
      coalesce(timeout_seconds, (select y.timeout_seconds from job_types y where y.key = jobs.job_type)), definition_id,
      parent_run_id, correlation_id, server_instance_id;
    return;
  end loop;
end $$;

-- Jobs of one tenant for a worker outside: queued -> running, each under a lease of its own.
-- Rows: c claimed; x the gate is closed; b someone else is counting, ask again. No row: nothing is due, a limit holds it, or its
-- definition is disabled.
-- Looks at the first jobs of its types and at the tenant's oldest; only where neither holds one, at everything of its types.
create or replace function atlas_remote_claim(p_claimant text, p_tenant uuid, p_types text[], p_limit int, p_lease float8)
returns table (
  kind "char", id uuid, tenant_id uuid, job_type text, input jsonb, attempt_count int, retry_count int, max_retries int,
  lost_count int, timeout_seconds int, definition_id uuid, parent_run_id uuid, correlation_id text
) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  seen constant int := 2000;
  cap int := (select (t.limits->>'in_flight')::int from tenants t where t.id = p_tenant);
  types text[] := array(select t from unnest(p_types) t where not exists (
    select from job_definitions d where d.key = t and not d.is_active));
  found_ids uuid[];
  best record;
  most int;
  taken int := 0;
begin
  if not atlas_claim_open(null) then
    kind := 'x';
    return next;
    return;
  end if;
  perform atlas_promote(200);
  found_ids := array(
    select c.id from (
      select a.id, a.priority, a.created_at
      from unnest(types) y(job_type)
      cross join lateral (
        select j.id, j.tenant_id, j.priority, j.created_at from jobs j
        where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful and j.job_type = y.job_type
        order by j.priority desc, j.created_at limit seen) a
      where a.tenant_id = p_tenant
      union
      select a.id, a.priority, a.created_at
      from unnest(types) y(job_type)
      cross join lateral (
        select j.id, j.priority, j.created_at from jobs j
        where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and j.careful
          and j.tenant_id = p_tenant and j.job_type = y.job_type
        order by j.priority desc, j.created_at limit p_limit) a
      union
      select b.id, b.priority, b.created_at
      from (select * from jobs j where j.tenant_id = p_tenant and j.status = 'queued' order by j.id limit seen) b
      where b.next_retry_at is null and b.host_id is null and b.job_type = any (types)) c
    order by c.priority desc, c.created_at limit 4 * p_limit);
  if cardinality(found_ids) = 0 then
    found_ids := array(
      select j.id from jobs j
      where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
        and j.job_type = any (types) and j.tenant_id = p_tenant
      limit p_limit);
  end if;
  for best in
    select j.id, j.job_type, j.lost_count from jobs j
    where j.id = any (found_ids) and j.status = 'queued' and j.next_retry_at is null
    order by j.priority desc, j.created_at
    for update skip locked
  loop
    exit when taken >= p_limit;
    -- A job that two workers were lost with is handed out alone.
    continue when best.lost_count >= 2 and taken > 0;
    most := (select y.concurrency from job_types y where y.key = best.job_type);
    if cap is not null or most is not null then
      if not pg_try_advisory_xact_lock(42712, 0) then
        if taken = 0 then
          kind := 'b';
          return next;
        end if;
        return;
      end if;
      exit when (select count(*) from jobs r where r.status = 'running' and r.tenant_id = p_tenant) >= cap;
      continue when (select count(*) from jobs r where r.status = 'running' and r.job_type = best.job_type) >= most;
    end if;
    return query
    update jobs
    set status = 'running', started_at = clock_timestamp(), updated_at = clock_timestamp(), claimed_by = p_claimant,
        attempt_count = attempt_count + 1, lease_expires_at = clock_timestamp() + p_lease * interval '1 second'
    where id = best.id and status = 'queued'
    returning 'c'::"char", id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count,
      coalesce(timeout_seconds, (select y.timeout_seconds from job_types y where y.key = jobs.job_type)), definition_id,
      parent_run_id, correlation_id;
    taken := taken + 1;
    exit when best.lost_count >= 2;
  end loop;
end $$;
