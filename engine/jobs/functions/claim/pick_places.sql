-- Locks all ready jobs at these places (see resume_places) and returns their addresses, where there are no more than p_want: then nothing has to be shared
-- out. Null where there are more: see pick_groups. `passed_over`: another claim had locked some of them.
-- With p_fair the clock of the shares moves on as if tenants had competed. Called by pick_ready, under the plan settings of claim_with_limits.
create or replace function pick_places(
  p_types text[], p_tenants uuid[], p_priorities int[], p_since timestamptz[], p_want int, p_fair boolean, out picked tid[], out passed_over boolean
) language plpgsql volatile
set search_path from current as $$
declare
  ready tid[];
  tenants uuid[];
begin
  select coalesce(array_agg(f.at), '{}'), coalesce(array_agg(distinct f.tenant_id), '{}')
  into ready, tenants
  from (
    select j.at, p.tenant_id
    from unnest(p_types, p_tenants, p_priorities, p_since) p(job_type, tenant_id, priority, since)
    cross join lateral (
      select * from (
        select j.ctid as at from only jobs j
        where is_ready(j) and j.job_type = p.job_type and j.tenant_id = p.tenant_id and p.priority is null
        order by j.priority desc, j.created_at limit p_want + 1) every
      union all
      select * from (
        select j.ctid as at from only jobs j
        where is_ready(j) and j.job_type = p.job_type and j.tenant_id = p.tenant_id and j.priority = p.priority and j.created_at >= p.since
        order by j.priority desc, j.created_at limit p_want + 1) resumed) j
    limit p_want + 1) f;
  if cardinality(ready) > p_want then
    return;
  end if;
  picked := array(
    select j.ctid from only jobs j where j.ctid = any (ready) and case when is_ready(j) then true else false end for update skip locked);
  passed_over := cardinality(picked) < cardinality(ready);
  if p_fair and cardinality(tenants) > 0 then
    perform move_share_clock((select min(s.at) from shares(tenants, true) s));
  end if;
end $$;
