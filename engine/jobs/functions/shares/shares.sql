-- When each of these tenants is served next, in virtual time, and by how much one of its jobs moves it on: by their mean, and by half a
-- millisecond at least, as in charge_tenants. All at once and by nothing where p_fair is false. Called by pick_groups, pick_places,
-- pick_limited, order_picked and share_of.
create or replace function shares(p_tenants uuid[], p_fair boolean) returns table (tenant_id uuid, at float8, cost float8)
language plpgsql stable rows 64
set search_path from current as $$
#variable_conflict use_column
begin
  return query
  select t.id,
    case when p_fair then greatest(s.used, c.at - 1) else 0 end,
    case when p_fair then greatest(coalesce(s.mean_seconds, 0.001), 0.0005) / coalesce((x.limits->>'weight')::float8, 1) else 0 end
  from unnest(p_tenants) t(id)
  cross join (select n.at from share_clock n order by n.at desc limit 1) c
  left join lateral (
    select n.used, n.mean_seconds from tenant_shares n where n.tenant_id = t.id order by n.used desc limit 1) s on true
  left join tenants x on x.id = t.id;
end $$;
