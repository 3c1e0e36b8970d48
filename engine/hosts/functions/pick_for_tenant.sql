-- Due jobs of one tenant and some types, about four times as many as asked for: others may be claiming them.
-- Locks nothing. Called by claim_leased.
create or replace function pick_for_tenant(p_tenant uuid, p_types text[], p_except text[], p_limit int) returns uuid[]
language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off set jit = off as $$
begin
  return array(
    select a.id
    from unnest(p_types) y(job_type)
    cross join lateral (
      (select j.id, j.priority, j.created_at from only jobs j
       where is_ready(j)
         and j.tenant_id = p_tenant and j.job_type = y.job_type
       order by j.priority desc, j.created_at limit 4 * p_limit)
      union all
      (select j.id, j.priority, j.created_at from only jobs j
       where is_ready_limited(j)
         and j.tenant_id = p_tenant and j.job_type = y.job_type
       order by j.priority desc, j.created_at limit 4 * p_limit)) a
    where y.job_type <> all (p_except)
    order by a.priority desc, a.created_at limit 4 * p_limit);
end $$;
