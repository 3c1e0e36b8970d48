-- due -> running under a lease, for the runs that are due among those that the caller has functions for. Under the gate like every
-- start. Schedules that another process is claiming are passed over, and so is a function that still runs, also for a schedule
-- that was removed meanwhile. Lost runs are ended first, whosever they are, so that theirs are due again.
-- Locks: recurring_runs and recurring_jobs of lost runs, gate, recurring_jobs (skipping locked ones). Called by
-- engine/schedules/recurring_runs.py.
create or replace function claim_recurring(p_by text, p_tenants uuid[], p_ids text[], p_lease float8)
returns table (run_id uuid, tenant_id uuid, id text, attempt_no int, timeout_seconds float8) language plpgsql volatile
set search_path from current as $$
#variable_conflict use_column
begin
  perform sweep_recurring();
  if not may_claim(null) then
    return;
  end if;
  return query
  with due as (
    select c.tenant_id, c.id, c.next_run_at, c.run_id from recurring_jobs c
    join unnest(p_tenants, p_ids) mine(tenant_id, id) on mine.tenant_id = c.tenant_id and mine.id = c.id
    where c.next_run_at <= clock_timestamp() and c.tenant_id <> all (moving_tenants())
      and not exists (
        select from recurring_runs o where o.tenant_id = c.tenant_id and o.recurring_id = c.id and o.finished_at is null)
    for update of c skip locked),
  -- The conflict is with a claim that was committed after this statement began.
  begun as (
    insert into recurring_runs (tenant_id, recurring_id, due_at, attempt_no, worker_id, lease_expires_at)
    select d.tenant_id, d.id, d.next_run_at, coalesce(last.attempt_no, 0) + 1, p_by,
      clock_timestamp() + p_lease * interval '1 second'
    from due d
    left join recurring_runs last on last.id = d.run_id and last.due_at = d.next_run_at and last.outcome in ('stopped', 'lost')
    on conflict (tenant_id, recurring_id) where finished_at is null do nothing
    returning id, tenant_id, recurring_id, attempt_no)
  update recurring_jobs r
  set run_id = b.id, run_count = r.run_count + 1, updated_at = clock_timestamp()
  from begun b
  where r.tenant_id = b.tenant_id and r.id = b.recurring_id
  returning r.run_id, r.tenant_id, r.id, b.attempt_no, r.timeout_seconds;
end $$;
