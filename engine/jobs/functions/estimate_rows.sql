-- How many jobs the planner expects of one tenant and status (or dead_letter), or of all tenants: for counts too large to be
-- counted. Called by engine/jobs/summary.py.
create or replace function estimate_rows(p_tenant uuid, p_status text) returns bigint language plpgsql volatile
set search_path from current as $$
declare
  plan jsonb;
begin
  execute format('explain (format json) select from jobs where %s%s',
    case when p_status = 'dead_letter' then 'dead_lettered_at is not null' else format('status = %L', p_status) end,
    case when p_tenant is not null then format(' and tenant_id = %L', p_tenant) else '' end) into plan;
  return (plan->0->'Plan'->>'Plan Rows')::bigint;
end $$;
