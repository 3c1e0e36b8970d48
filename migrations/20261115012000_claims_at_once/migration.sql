-- A claim alone, the one an idle worker makes when it hears of a job: where nothing is due, careful or limited it is one small
-- statement, without all that a whole turn brings along. Where it finds nothing to take, or may not, the turn says why.

-- Takes what `atlas_turn` takes, and answers as it does. Does not wait for the disk: a claim that a crash of the server undoes
-- leaves the job queued, and its late outcome is refused.
create function atlas_claim(
  p_worker text, p_slots int, p_prefetch int, p_types text[], p_lease float8, p_alone boolean
) returns table (
  kind "char", id uuid, tenant_id uuid, job_type text, input jsonb, attempt_count int, retry_count int, max_retries int,
  lost_count int, timeout_seconds int, definition_id uuid, parent_run_id uuid, correlation_id text
) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  at_once text := set_config('synchronous_commit', 'off', true);
begin
  -- The locks come first: what the statement after them sees of the gate and of this worker holds until it commits.
  if cardinality(p_types) = 1 and current_setting('transaction_isolation') = 'read committed'
     and pg_try_advisory_xact_lock_shared(42710, 0)
     and (p_lease is not null or pg_try_advisory_xact_lock_shared(42711, hashtext(p_worker))) then
    return query
    update jobs
    set status = 'running', started_at = clock_timestamp(), updated_at = clock_timestamp(), claimed_by = p_worker,
        attempt_count = attempt_count + 1, lease_expires_at = clock_timestamp() + p_lease * interval '1 second'
    where ctid = any (array(
        select j.ctid from jobs j
        where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful and j.job_type = p_types[1]
          and exists (select from system_state s where s.key = 'atlas_online' and s.value->>'online' = 'true')
          and (p_lease is not null or exists (
            select from job_workers w
            where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp()))
          and not exists (select from jobs d where d.status = 'queued' and d.next_retry_at <= statement_timestamp())
          and not exists (
            select from jobs c where c.status = 'queued' and c.next_retry_at is null and c.host_id is null and c.careful)
          and not exists (select from job_types y where y.concurrency is not null and y.key = any (p_types))
          and not exists (select from tenants x where x.limits ? 'in_flight')
        order by j.priority desc, j.created_at limit p_slots + p_prefetch for update of j skip locked))
      and status = 'queued'
    returning 'c'::"char", id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds,
      definition_id, parent_run_id, correlation_id;
    if found then
      return;
    end if;
  end if;
  return query
  select t.* from atlas_turn(
    p_worker, p_slots, p_prefetch, p_types, p_lease,
    '{}', null, null, null, null, null, null, null, null, null, null, null, null, null, null, p_alone) t;
end $$;
