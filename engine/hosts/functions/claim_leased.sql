-- queued -> running for a host or a remote worker, each job under a lease of its own.
-- p_host: the jobs of this host, one at a time; what it held before under a lapsed lease is requeued first. Without it: up to
-- p_limit jobs of p_tenant and p_types.
-- Rows: claimed; closed; busy, another claim counts the limits. No row: nothing is due, a limit holds it, its definition is
-- disabled, it is paused, or the host has a running job. Locks: gate, host, job rows, limits. Called by engine/hosts/leased_jobs.py.
create or replace function claim_leased(
  p_claimant text, p_host uuid, p_tenant uuid, p_types text[], p_limit int, p_lease float8
) returns setof turn_row language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off set jit = off as $$
#variable_conflict use_column
declare
  paused record;
  claimed turn_row;
  -- Types that are not started now: their definition is disabled, they are paused, or as many as may run are running.
  full_types text[] := array(select d.key from job_definitions d where not d.is_active);
  picked uuid[];
  best record;
  running uuid[];
  cap int;
  most int;
  taken int := 0;
begin
  if not may_claim(null) then
    return next turn_signal('closed');
    return;
  end if;
  if p_host is not null then
    if not pg_try_advisory_xact_lock(lock_class('host'), hashtext(p_host::text)) then
      return next turn_signal('busy');
      return;
    end if;
    -- A host that returns need not wait for the sweep of expired leases.
    perform reclaim_jobs(array(
      select j.id from only jobs j
      where j.id = any (array(select r.id from only jobs r where r.claimed_by = p_claimant and r.status = 'running'))
        and case when j.claimed_by = p_claimant and j.status = 'running' and j.lease_expires_at < clock_timestamp() then true else false end
      order by j.id for update skip locked));
    if (select true from only jobs j where j.claimed_by = p_claimant and j.status = 'running' order by j.tenant_id limit 1) then
      return;
    end if;
  end if;
  select * into paused from paused_now();
  if coalesce(p_tenant, (select h.tenant_id from hosts h where h.id = p_host)) = any (paused.tenants) or exists (
      select from pauses p where p.kind = 'host' and p.target = p_host::text and (p.until is null or p.until > clock_timestamp())) then
    return;
  end if;
  full_types := full_types || paused.types;
  perform expire_jobs(200, false);
  perform promote_due(200);
  perform release_held(p_limit, p_types);
  loop
    if p_host is null then
      picked := pick_for_tenant(p_tenant, p_types, full_types, p_limit);
    else
      picked := array(
        select j.id from only jobs j
        join hosts h on h.id = j.host_id and h.tenant_id = j.tenant_id and h.is_active
        where j.status = 'queued' and j.next_retry_at is null and j.host_id = p_host and j.job_type <> all (full_types)
          and (j.start_by is null or j.start_by > clock_timestamp())
        order by j.priority desc, j.created_at limit 1
        for update of j skip locked);
    end if;
    for best in
      select j.ctid as at, j.tenant_id, j.job_type, j.lost_count, j.max_retries, j.retries_chosen from only jobs j
      where j.id = any (picked) and case when j.status = 'queued' and j.next_retry_at is null then true else false end
      order by j.priority desc, j.created_at
      for update skip locked
    loop
      exit when taken >= p_limit;
      continue when best.job_type = any (full_types);
      -- A job that workers were lost with is claimed alone.
      continue when best.lost_count >= alone_after_losses() and taken > 0;
      cap := (select (t.limits->>'in_flight')::int from tenants t where t.id = best.tenant_id);
      most := (select y.concurrency from job_types y where y.key = best.job_type and y.concurrency_key is null);
      if cap is not null or most is not null then
        if not pg_try_advisory_xact_lock(lock_class('limits'), 0) then
          if taken = 0 then
            return next turn_signal('busy');
          end if;
          return;
        end if;
        running := count_limited_running();
        if (select count(*) from only jobs r
            where r.id = any (running) and case when r.status = 'running' then r.tenant_id = best.tenant_id else false end) >= cap then
          return;
        end if;
        if (select count(*) from only jobs r
            where r.id = any (running) and case when r.status = 'running' then r.job_type = best.job_type else false end) >= most then
          full_types := full_types || best.job_type;
          continue;
        end if;
      end if;
      claimed := (select c from start_jobs(array[best.at], p_claimant, p_lease) c);
      continue when claimed is null;
      if cap is not null or most is not null then
        perform note_limited_running(running || claimed.id);
      end if;
      -- Hosts and remote workers have no handler that would say these.
      claimed.max_retries := retries_of(best.job_type, best.max_retries, best.retries_chosen);
      claimed.timeout_seconds := least(
        coalesce(claimed.timeout_seconds, (select y.timeout_seconds from job_types y where y.key = best.job_type)),
        case when claimed.finish_within is not null then greatest(1, claimed.finish_within)::int end);
      return next claimed;
      taken := taken + 1;
      exit when best.lost_count >= alone_after_losses();
    end loop;
    -- The best job of a host may have a full type: the next pick leaves that type out.
    exit when p_host is null or taken > 0 or cardinality(picked) = 0;
  end loop;
end $$;
