-- Marks picked jobs whose type or tenant has a limit as limited (jobs.careful), and returns the rest.
-- Runs under the plan settings of claim_with_limits, which calls it.
create or replace function mark_limited(p_picked tid[]) returns tid[] language plpgsql volatile
set search_path from current as $$
declare
  limited_types text[] := array(select key from job_types where concurrency is not null and concurrency_key is null);
  limited_tenants uuid[] := array(select id from tenants where limits ? 'in_flight');
begin
  if cardinality(limited_types) + cardinality(limited_tenants) = 0 then
    return p_picked;
  end if;
  update only jobs set careful = true
  where ctid = any (p_picked)
    and case when status = 'queued' then job_type = any (limited_types) or tenant_id = any (limited_tenants) else false end;
  -- An updated row has moved, so its old address matches nothing any more.
  return array(select ctid from only jobs where ctid = any (p_picked) and case when status = 'queued' then not careful else false end);
end $$;
