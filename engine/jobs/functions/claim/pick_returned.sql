-- Locks up to p_want jobs that became ready again since p_since, after a delay, a limit or an event, and returns their addresses: they may be older than
-- the places that a claim goes on from. `careful`: the places of those that are counted against limits. `left_since`: when the first of the others
-- became ready. Reads 1,000 at most. Of these types (null: of all), but for what is paused.
-- Locks: job rows, skipping locked ones. Runs under the plan settings of claim_with_limits, which calls it.
create or replace function pick_returned(
  p_types text[], p_want int, p_since timestamptz, p_paused_types text[], p_paused_tenants uuid[], out picked tid[], out careful jsonb,
  out left_since timestamptz
) language plpgsql volatile
set search_path from current as $$
begin
  with returned as materialized (
    select j.ctid as at, j.job_type, j.tenant_id, j.priority, j.created_at, j.due_at, j.careful from only jobs j
    where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and j.due_at >= p_since
    order by j.due_at limit 1000),
  served as materialized (
    select r.*, row_number() over (partition by r.careful order by r.priority desc, r.created_at) as nth from returned r
    where (p_types is null or r.job_type = any (p_types)) and r.job_type <> all (p_paused_types) and r.tenant_id <> all (p_paused_tenants)),
  limited as (
    select s.job_type, s.tenant_id, s.priority, extract(epoch from min(s.created_at)) - 0.001 as since
    from served s where s.careful group by s.job_type, s.tenant_id, s.priority)
  select array(select s.at from served s where not s.careful and s.nth <= p_want),
    coalesce((select jsonb_agg(jsonb_build_array(l.job_type, l.tenant_id, l.priority, l.since)) from limited l), '[]'),
    least((select min(s.due_at) from served s where not s.careful and s.nth > p_want),
      (select max(r.due_at) from returned r having count(*) = 1000))
  into picked, careful, left_since;
  if cardinality(picked) > 0 then
    picked := array(
      select j.ctid from only jobs j
      where j.ctid = any (picked) and case when j.status = 'queued' and j.next_retry_at is null then true else false end
      for update skip locked);
  end if;
end $$;
