-- Locks up to p_want ready jobs of these tenants and returns their addresses. They share them by what they have used (see shares), and
-- priority orders the jobs of one. `has_more`: some may have more than was taken. Called by pick_ready.
create or replace function pick_shared(p_types text[], p_tenants uuid[], p_want int, out picked tid[], out has_more boolean)
language plpgsql volatile
set search_path from current as $$
declare
  at float8[];
  cost float8[];
  quota int[];
  found_all boolean[];
  taken int[];
  step int;
  most_steps int;
  want int := p_want;
  round int := 0;
begin
  picked := '{}';
  select array_agg(s.at order by t.nth), array_agg(s.cost order by t.nth), array_agg(0), array_agg(true)
  into at, cost, taken, found_all
  from unnest(p_tenants) with ordinality t(id, nth) join shares(p_tenants, true) s on s.tenant_id = t.id;
  -- Each round shares out what is left among the tenants that had all that they were given before.
  while want > 0 and round < 5 and true = any (found_all) loop
    -- In steps of some jobs where many are wanted, and at most twice its part for one tenant: the next round goes on.
    step := greatest(1, want / 128);
    most_steps := 2 * (want / step / cardinality(array_positions(found_all, true)) + 1);
    quota := array(
      select coalesce(q.jobs, 0) from generate_subscripts(p_tenants, 1) g(i)
      left join (
        select p.i, least(want, count(*) * step) as jobs
        from (
          select s.i from unnest(at, cost, found_all) with ordinality s(at, cost, found_all, i)
          cross join generate_series(0, most_steps - 1) k
          where s.found_all
          order by s.at + k * step * s.cost, s.i
          limit (want + step - 1) / step) p
        group by p.i) q on q.i = g.i
      order by g.i);
    with got as materialized (
      select t.i, a.at
      from unnest(p_tenants, quota, taken) with ordinality t(id, quota, taken, i)
      cross join lateral (
        select b.at
        from unnest(p_types) y(job_type)
        cross join lateral (
          -- Those of the rounds before are locked by this claim, which does not pass over them.
          select j.ctid as at, j.priority, j.created_at from jobs j
          where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
            and j.job_type = y.job_type and j.tenant_id = t.id
          order by j.priority desc, j.created_at limit t.quota + t.taken for update skip locked) b
        order by b.priority desc, b.created_at offset t.taken limit t.quota) a
      where t.quota > 0),
    counted as (
      select t.i, t.at + coalesce(n.jobs, 0) * t.cost as at, t.taken + coalesce(n.jobs, 0) as taken,
        t.found_all and coalesce(n.jobs, 0) >= t.quota as found_all
      from unnest(at, cost, quota, taken, found_all) with ordinality t(at, cost, quota, taken, found_all, i)
      left join (select g.i, count(*)::int as jobs from got g group by g.i) n on n.i = t.i)
    select picked || array(select g.at from got g), array_agg(c.at order by c.i), array_agg(c.taken order by c.i), array_agg(c.found_all order by c.i)
    into picked, at, taken, found_all
    from counted c;
    want := p_want - cardinality(picked);
    round := round + 1;
  end loop;
  has_more := true = any (found_all);
  perform move_share_clock((
    select min(t.at - t.taken * t.cost) from unnest(at, cost, taken) t(at, cost, taken) where t.taken > 0));
end $$;
