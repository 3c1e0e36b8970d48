-- Takes the runs that are due among those that the caller has functions for. Under the gate like every start.
-- Rows that another process is taking are passed over; a lapsed lease frees a run whose process died.
-- Locks: gate, recurring_jobs (skipping locked ones). Called by engine/recurring.py.
create or replace function claim_recurring(p_by text, p_tenants uuid[], p_ids text[], p_lease float8)
returns table (tenant_id uuid, id text, run_count int, timeout_seconds float8) language plpgsql volatile
set search_path from current as $$
#variable_conflict use_column
begin
  if not may_claim(null) then
    return;
  end if;
  return query
  update recurring_jobs r
  set locked_by = p_by, lease_expires_at = clock_timestamp() + p_lease * interval '1 second', run_count = r.run_count + 1,
      last_started_at = clock_timestamp(), updated_at = clock_timestamp()
  from (
    select c.tenant_id, c.id from recurring_jobs c
    join unnest(p_tenants, p_ids) mine(tenant_id, id) on mine.tenant_id = c.tenant_id and mine.id = c.id
    where c.next_run_at <= clock_timestamp() and (c.locked_by is null or c.lease_expires_at < clock_timestamp())
    for update of c skip locked) due
  where r.tenant_id = due.tenant_id and r.id = due.id
  returning r.tenant_id, r.id, r.run_count, r.timeout_seconds;
end $$;
