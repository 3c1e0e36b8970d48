-- queued -> running for up to p_slots jobs to run now and p_prefetch more to run next. Looks across tenants: a worker serves all.
-- Returns the claimed jobs, and rows that say why there are not more (type turn_kind).
-- p_types null: every type. p_lease: seconds of a lease of the job's own, null for a worker, whose lease is its own row.
-- p_fair: tenants share the workers; otherwise priority and age order all jobs. p_after: where the last claim among many tenants ended.
-- p_alone: the caller holds nothing else, so that a job that must run alone may be all that is claimed.
-- p_tenant: only its jobs, of one type, if nothing is due, limited or paused, and if it has used no more than its share, or a tenth
-- of a second: the clock of the shares goes in steps.
-- p_resume: the caller knows 'slow' and 'place'. With `places` (type, tenant, priority, seconds of the epoch) only those are looked at, each from
-- its time on, with `careful` (the same) only those of the jobs that are counted against limits, and with `due_since` only what fell due, was released or was woken since then: index entries of claimed jobs are not walked over again and again while a
-- transaction holds the xmin horizon. See workers/claims/resume_places.py.
-- Statistics are old, or say nothing of a column, and sessions keep plans that were made while the table was empty. So no plan here depends on
-- them: a probe asks in the order of the one index that has it, sorting is off, and a guard stands in a case, opaque to the planner. A probe
-- with `exists` would drop its order, and walk over all that is queued along another index.
-- Locks: gate, worker, job rows (skipping locked ones), limits, limit. Called by engine/jobs/claim.py and by turn.
create or replace function claim(
  p_worker text, p_slots int, p_prefetch int, p_types text[], p_lease float8, p_alone boolean, p_fair boolean, p_after uuid, p_tenant uuid default null, p_resume jsonb default null
) returns setof turn_row language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off as $$
#variable_conflict use_column
declare
  read_before constant bigint := case when p_resume is not null then claim_entries_read() end;
  last_tenant uuid;
  is_plain boolean;
  returned bigint := 0;
begin
  if p_lease is not null then
    -- Workers claim in a statement alone; such a claim may be a part of its caller's transaction.
    perform limit_idle();
  end if;
  -- Most of the time one type of one tenant is served and nothing is due, limited, held or paused: then claiming is two statements.
  -- The locks come first: what these statements see of the gate and of this worker holds until they commit.
  if cardinality(p_types) = 1 and p_after is null and not coalesce(p_resume ? 'places', false) and current_setting('transaction_isolation') = 'read committed'
     and pg_try_advisory_xact_lock_shared(lock_class('gate'), 0)
     and (p_lease is not null or pg_try_advisory_xact_lock_shared(lock_class('worker'), hashtext(p_worker))) then
    select l.tenant_id,
      case when p_tenant is null then (
          select true from only jobs o where is_ready(o) and o.job_type = p_types[1] and o.tenant_id < l.tenant_id
          order by o.tenant_id desc, o.priority, o.created_at desc limit 1) is null
        else not exists (
          select from tenant_shares u where u.tenant_id = p_tenant and u.used > (select c.at + 0.1 from share_clock c order by c.at desc limit 1)) end
      and exists (select from system_state s where is_open(s) and not s.value ? 'pauses')
      and (p_lease is not null or exists (
        select from job_workers w where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp()))
      and (
        select true from only jobs d where d.status = 'queued' and d.next_retry_at <= statement_timestamp()
        order by d.next_retry_at limit 1) is null
      and (
        select true from (
          select x.parent_run_id from only jobs x where x.status = 'queued' and x.start_by <= statement_timestamp()
          order by x.start_by limit 200) e
        where e.parent_run_id is null limit 1) is null
      and (select true from only jobs c where is_ready_limited(c) order by c.tenant_id, c.job_type limit 1) is null
      and not exists (select from job_types y where y.concurrency is not null and y.concurrency_key is null and y.key = any (p_types))
      and not exists (select from tenants x where x.limits ? 'in_flight')
      and not exists (select from limit_events)
      and not exists (select from job_limits l where l.release_at is not null)
    into last_tenant, is_plain
    -- The last tenant, since the index begins with entries of jobs that were claimed just now.
    from (
      select coalesce(p_tenant, (
        select f.tenant_id from only jobs f where is_ready(f) and f.job_type = p_types[1]
        order by f.tenant_id desc, f.priority, f.created_at desc limit 1)) as tenant_id offset 0) l;
    if is_plain and last_tenant is not null then
      return query
      update only jobs j
      -- The guard reads the clock before: a job that it lets start in time did so.
      set status = 'running', started_at = least(clock_timestamp(), j.start_by), updated_at = clock_timestamp(), claimed_by = p_worker,
          attempt_count = j.attempt_count + 1, lease_expires_at = case when p_lease is not null then clock_timestamp() + p_lease * interval '1 second' end
      where j.ctid = any (array(
          select r.ctid from only jobs r where is_ready(r) and r.job_type = p_types[1] and r.tenant_id = last_tenant
          order by r.priority desc, r.created_at limit p_slots + p_prefetch for update skip locked))
        and case when j.status = 'queued' and (j.start_by is null or j.start_by > clock_timestamp()) then true else false end
      returning (claimed_row(j)).*;
      get diagnostics returned = row_count;
    end if;
  end if;
  -- Where the queue is plain and has nothing of this type, the general way would take eight times as long to find that out.
  if returned = 0 and p_tenant is null and not coalesce(is_plain and last_tenant is null, false) then
    return query select * from claim_with_limits(p_worker, p_slots, p_prefetch, p_types, p_lease, p_alone, p_fair, p_after, p_resume);
    get diagnostics returned = row_count;
  end if;
  if p_resume is not null and claim_entries_read() - read_before > 2000 + 8 * returned then
    return next turn_signal('slow');
  end if;
end $$;
