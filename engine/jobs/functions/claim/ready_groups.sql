-- The groups of ready jobs (one tenant and one type each) of these types, for the tenants from after p_after on to p_until (null: to the last) in
-- the order of their ids: of p_most tenants at most, but for p_without. Walks from group to group along the index: about as many probes as there are types and
-- groups of these tenants, whatever stands in the queue. Priority and age are in their order because the index by tenant alone has jobs of all types.
-- A look that goes on behind the last of these tenants gets next_types, which may have jobs there, and as p_first next_first: the first tenant of
-- each of them, null where it is not known.
-- Called by pick_ready and share_of.
create or replace function ready_groups(
  p_types text[], p_after uuid, p_until uuid, p_most int, p_without uuid[], p_first uuid[] default null, out types text[], out tenants uuid[], out tenant_count int,
  out next_types text[], out next_first uuid[]
) language plpgsql volatile
set search_path from current as $$
#variable_conflict use_column
begin
  with recursive first as materialized (
    select y.job_type, y.nth, coalesce(y.tenant_id, (
      select j.tenant_id from only jobs j
      where is_ready(j)
        and j.job_type = y.job_type and j.tenant_id > p_after and j.tenant_id <= coalesce(p_until, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      order by j.tenant_id, j.priority desc, j.created_at limit 1)) as tenant_id
    from unnest(p_types, p_first) with ordinality y(job_type, tenant_id, nth)),
  -- The first tenants of the types are among those that are asked for, so that no type is walked beyond the last of p_most such tenants.
  bound as materialized (
    select coalesce((
      select f.tenant_id from first f where f.tenant_id <> all (p_without)
      group by f.tenant_id order by f.tenant_id offset p_most - 1 limit 1), p_until, 'ffffffff-ffff-ffff-ffff-ffffffffffff') as tenant_id),
  walk as (
    select 1 as nth, f.job_type, f.tenant_id from first f where f.tenant_id <= (select b.tenant_id from bound b)
    union all
    select w.nth + (w.tenant_id <> all (p_without))::int, w.job_type, (
      select j.tenant_id from only jobs j
      where is_ready(j)
        and j.job_type = w.job_type and j.tenant_id > w.tenant_id and j.tenant_id <= (select b.tenant_id from bound b)
      order by j.tenant_id, j.priority desc, j.created_at limit 1)
    from walk w
    where w.tenant_id < (select b.tenant_id from bound b)
      and w.nth + (w.tenant_id <> all (p_without))::int <= p_most),
  found as (
    select w.job_type, w.tenant_id, dense_rank() over (order by w.tenant_id) as tenant_nth
    from walk w where w.tenant_id is not null and w.tenant_id <> all (p_without))
  select coalesce(array_agg(f.job_type order by f.tenant_id), '{}'), coalesce(array_agg(f.tenant_id order by f.tenant_id), '{}'),
    coalesce(max(f.tenant_nth), 0)::int,
    (select coalesce(array_agg(r.job_type order by r.nth), '{}') from first r where r.tenant_id is not null),
    (select coalesce(array_agg(case when r.tenant_id > l.last then r.tenant_id end order by r.nth), '{}')
     from first r, (select coalesce((array_agg(m.tenant_id order by m.tenant_id desc))[1], p_after) as last from found m where m.tenant_nth <= p_most) l where r.tenant_id is not null)
  into types, tenants, tenant_count, next_types, next_first
  from found f where f.tenant_nth <= p_most;
end $$;
