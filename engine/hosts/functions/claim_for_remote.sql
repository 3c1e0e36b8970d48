-- queued -> running for jobs of one tenant and a worker that reaches Atlas over HTTP, each under a lease of its own.
-- Rows: claimed; closed; busy. No row: nothing is due, a limit holds it, or its definition is disabled.
-- Looks at the first jobs of its types and at the tenant's oldest; only where neither holds one, at everything of its types.
-- Locks: gate, job rows, limits. Called by engine/hosts.
create or replace function claim_for_remote(p_claimant text, p_tenant uuid, p_types text[], p_limit int, p_lease float8)
returns setof turn_row language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  signal turn_row;
  seen constant int := 2000;
  cap int := (select (t.limits->>'in_flight')::int from tenants t where t.id = p_tenant);
  types text[] := array(select t from unnest(p_types) t where not exists (
    select from job_definitions d where d.key = t and not d.is_active));
  found_ids uuid[];
  best record;
  most int;
  taken int := 0;
begin
  if not may_claim(null) then
    signal.kind := 'closed';
    return next signal;
    return;
  end if;
  perform promote_due(200);
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
    continue when best.lost_count >= alone_after_losses() and taken > 0;
    most := (select y.concurrency from job_types y where y.key = best.job_type);
    if cap is not null or most is not null then
      if not pg_try_advisory_xact_lock(lock_class('limits'), 0) then
        if taken = 0 then
          signal.kind := 'busy';
          return next signal;
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
    returning 'claimed'::turn_kind, id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count,
      coalesce(timeout_seconds, (select y.timeout_seconds from job_types y where y.key = jobs.job_type)), definition_id,
      parent_run_id, correlation_id, server_instance_id,
      lost_count >= alone_after_losses();
    taken := taken + 1;
    exit when best.lost_count >= alone_after_losses();
  end loop;
end $$;
