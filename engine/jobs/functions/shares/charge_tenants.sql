-- Adds what tenants have used of a worker: seconds, and how many jobs ended in them. A job counts for half a millisecond at least: what
-- shorter ones take is noise, and claiming and recording them is what they cost. Returns those whose row another worker is
-- writing: theirs are reported with the next call, so that no worker waits for another. Called by turn.
create or replace function charge_tenants(p_tenants uuid[], p_seconds float8[], p_jobs int[]) returns setof uuid language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  begun uuid[];
  free uuid[];
  rows tid[];
begin
  begun := array(
    select t.id from unnest(p_tenants) t(id)
    where (select true from tenant_shares s where s.tenant_id = t.id order by s.used desc limit 1) is null order by t.id);
  if cardinality(begun) > 0 then
    insert into tenant_shares (tenant_id, used)
    select t.id, (select c.at - 1 from share_clock c order by c.at desc limit 1) from unnest(begun) t(id)
    on conflict do nothing;
  end if;
  select coalesce(array_agg(t.id), '{}'), coalesce(array_agg(f.at), '{}') into free, rows
  from unnest(p_tenants) t(id)
  cross join lateral (
    select s.ctid as at from tenant_shares s where s.tenant_id = t.id order by s.used desc limit 1 for update skip locked) f;
  update tenant_shares s
  set used = greatest(s.used, c.at - 1) + greatest(u.seconds, 0.0005 * u.jobs) / coalesce((x.limits->>'weight')::float8, 1),
      mean_seconds = case when u.jobs = 0 then s.mean_seconds
        else s.mean_seconds + (greatest(u.seconds / u.jobs, 0.00001) - s.mean_seconds) * least(1, u.jobs / 20.0) end,
      recent_seconds = faded(s.recent_seconds, s.charged_at) + u.seconds,
      charged_at = clock_timestamp()
  from unnest(p_tenants, p_seconds, p_jobs) u(id, seconds, jobs)
  join unnest(free, rows) f(id, at) on f.id = u.id
  cross join (select n.at from share_clock n order by n.at desc limit 1) c
  left join tenants x on x.id = u.id
  where s.ctid = f.at;
  return query select t.id from unnest(p_tenants) t(id) where t.id <> all (free);
end $$;
