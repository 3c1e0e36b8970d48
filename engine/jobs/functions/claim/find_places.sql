-- Where the ready jobs of these types begin, those that are counted against limits too: by type, tenant and priority, when the oldest was created in
-- seconds of the epoch. The last row has no type, in `since` how many index entries were read, as many as a claim from the head would read, and in
-- `careful` whether there may be more after the last place: then p_within was over. Looks across tenants: a worker serves them all. Called by
-- engine/jobs/claim.py.
create or replace function find_places(
  p_types text[], p_type text default null, p_tenant uuid default null, p_priority int default null, p_within interval default null)
returns table (job_type text, tenant_id uuid, priority int, since float8, careful boolean)
language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off as $$
#variable_conflict use_column
declare
  read_before constant bigint := claim_entries_read();
  until constant timestamptz := coalesce(clock_timestamp() + p_within, 'infinity');
begin
  return query
  select r.job_type, r.tenant_id, r.priority, extract(epoch from r.created_at)::float8, false
  from ready_places(p_types, coalesce(p_type, ''), coalesce(p_tenant, '00000000-0000-0000-0000-000000000000'), coalesce(p_priority, 0), until) r;
  if found and clock_timestamp() >= until then
    return query select null::text, null::uuid, null::int, (claim_entries_read() - read_before)::float8, true;
    return;
  end if;
  return query
  with recursive walk as (
    (select j.tenant_id, j.job_type, j.priority, j.created_at from only jobs j
     where is_ready_limited(j)
     order by j.tenant_id, j.job_type, j.priority desc, j.created_at limit 1)
    union all
    select n.* from walk w
    cross join lateral (
      select * from (
        (select j.tenant_id, j.job_type, j.priority, j.created_at from only jobs j
         where is_ready_limited(j)
           and j.tenant_id = w.tenant_id and j.job_type = w.job_type and j.priority < w.priority
         order by j.priority desc, j.created_at limit 1)
        union all
        (select j.tenant_id, j.job_type, j.priority, j.created_at from only jobs j
         where is_ready_limited(j)
           and (j.tenant_id, j.job_type) > (w.tenant_id, w.job_type)
         order by j.tenant_id, j.job_type, j.priority desc, j.created_at limit 1)) o
      limit 1) n)
  select w.job_type, w.tenant_id, w.priority, (extract(epoch from w.created_at) - 0.001)::float8, true
  from walk w where p_types is null or w.job_type = any (p_types);
  -- What else a claim from the head walks over.
  perform (select true from only jobs j where j.status = 'queued' and j.next_retry_at <= statement_timestamp() order by j.next_retry_at limit 1),
    (select true from only jobs j where j.status = 'queued' and j.start_by <= statement_timestamp() order by j.start_by limit 1),
    (select true from limit_events e order by e.limit_id, e.id limit 1);
  return query select null::text, null::uuid, null::int, (claim_entries_read() - read_before)::float8, false;
end $$;
