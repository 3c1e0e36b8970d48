-- The ids of the running jobs whose type or tenant has a limit. They are read from the index of running jobs. While a transaction holds the xmin horizon, that
-- has an entry for each job that has run since; where it takes long, the ids are kept in counted_jobs, and each claim adds those that it starts (note_limited_running).
-- They are read from the index again after five minutes, or 500 times as long as that took, and five seconds after limits have changed: a claim that did not see the
-- change may have started more. Called by pick_limited and claim_leased, which hold the lock `limits` until they commit. Runs under their plan settings.
create or replace function count_limited_running() returns uuid[] language plpgsql volatile
set search_path from current as $$
declare
  types constant text[] := array(select y.key from job_types y where y.concurrency is not null and y.concurrency_key is null order by y.key);
  tenants constant uuid[] := array(select x.id from tenants x where x.limits ? 'in_flight' order by x.id);
  terms constant uuid := md5(types::text || tenants::text)::uuid;
  began_at constant timestamptz := clock_timestamp();
  read_before constant bigint := limit_entries_read();
  kept counted_jobs;
  running uuid[];
  good_for interval := '5 seconds';
begin
  if cardinality(types) + cardinality(tenants) = 0 then
    return '{}';
  end if;
  select * into kept from counted_jobs c where c.limit_id = no_limit() order by c.n desc limit 1;
  if kept.terms = terms and kept.until > began_at then
    return array(
      select j.id from only jobs j where j.id = any (kept.ids) and case when j.status = 'running' then true else false end);
  end if;
  running := array(
    select j.id from only jobs j
    where j.status = 'running' and case when j.job_type = any (types) then true else j.tenant_id = any (tenants) end
    order by j.claimed_by, j.tenant_id);
  delete from counted_jobs where limit_id = no_limit() and n = kept.n;
  if limit_entries_read() - read_before > slow_entries() + 8 * cardinality(running) then
    if kept.terms = terms then
      good_for := greatest(interval '5 minutes', 500 * (clock_timestamp() - began_at));
    end if;
    insert into counted_jobs (limit_id, ids, terms, until) values (no_limit(), running, terms, began_at + good_for);
  end if;
  return running;
end $$;
