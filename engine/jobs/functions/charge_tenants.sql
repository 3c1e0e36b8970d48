-- Adds what tenants have used of a worker: seconds, and how many jobs ended in them. Returns those whose row another worker is
-- writing: theirs are reported with the next call, so that no worker waits for another. Called by turn.
create or replace function charge_tenants(p_tenants uuid[], p_seconds float8[], p_jobs int[]) returns setof uuid language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan as $$
declare
  begun uuid[];
  free uuid[];
begin
  begun := array(
    select t.id from unnest(p_tenants) t(id) where not exists (select from tenant_shares s where s.tenant_id = t.id) order by t.id);
  if cardinality(begun) > 0 then
    insert into tenant_shares (tenant_id, used)
    select t.id, c.at - 1 from unnest(begun) t(id) cross join share_clock c
    on conflict do nothing;
  end if;
  free := array(select s.tenant_id from tenant_shares s where s.tenant_id = any (p_tenants) for update skip locked);
  update tenant_shares s
  set used = greatest(s.used, c.at - 1) + u.seconds / coalesce((x.limits->>'weight')::float8, 1),
      mean_seconds = case when u.jobs = 0 then s.mean_seconds
        else s.mean_seconds + (greatest(u.seconds / u.jobs, 0.00001) - s.mean_seconds) * least(1, u.jobs / 20.0) end,
      recent_seconds = faded(s.recent_seconds, s.charged_at) + u.seconds,
      charged_at = clock_timestamp()
  from unnest(p_tenants, p_seconds, p_jobs) u(id, seconds, jobs)
  cross join share_clock c
  left join tenants x on x.id = u.id
  where s.tenant_id = u.id
    and s.tenant_id = any (free);
  return query select t.id from unnest(p_tenants) t(id) where t.id <> all (free);
end $$;
