-- The first p_want of these locked jobs: where p_fair says so, tenants share them by what they have used; priority and age order the jobs of one.
-- Called by claim_with_limits, under its plan settings.
create or replace function order_picked(p_picked tid[], p_want int, p_fair boolean) returns tid[] language plpgsql volatile
set search_path from current as $$
begin
  return array(
    select o.at
    from (
      select j.ctid as at, j.tenant_id, j.priority, j.created_at,
        row_number() over (partition by j.tenant_id order by j.priority desc, j.created_at) - 1 as before
      from only jobs j where j.ctid = any (p_picked)) o
    join shares(array(select distinct j.tenant_id from only jobs j where j.ctid = any (p_picked)), p_fair) s on s.tenant_id = o.tenant_id
    order by s.at + o.before * s.cost, o.priority desc, o.created_at limit p_want);
end $$;
