-- Locks up to p_want of the best jobs of these ready groups (see ready_groups) and returns their addresses. With p_fair tenants share them
-- by what they have used (see shares), and priority orders the jobs of one; otherwise priority and age order all jobs.
-- A group with a priority is only its jobs of that priority that were created since p_since: see resume_places.
-- `has_more`: some may have more than was taken. Called by pick_ready.
-- A lane is what has one order: a tenant, or everything. Of each group in a lane some jobs are locked; those that come before the last one of
-- every group that may have more are the next of the lane. A group whose jobs were all taken is read four times as deep in the next round:
-- that locks about half as many jobs again as are taken, where one read of all would lock as many times the jobs as there are groups.
create or replace function pick_groups(
  p_types text[], p_tenants uuid[], p_priorities int[], p_since timestamptz[], p_want int, p_fair boolean, out picked tid[], out has_more boolean
) language plpgsql volatile
set search_path from current as $$
declare
  lanes uuid[];
  -- By group: its lane, and how many of its jobs to lock.
  lane_of int[];
  depth int[];
  -- By lane: when it is served next in virtual time, what a job costs, how many groups it has, how many jobs were taken, whether it may have
  -- more, and how many to take in this round. A group that may have more than was locked bounds its lane by its last locked job.
  at float8[];
  cost float8[];
  groups int[];
  taken int[];
  is_open boolean[];
  quota int[];
  step int;
  max_steps int;
  want int := p_want;
  round int := 0;
begin
  picked := '{}';
  if p_fair then
    lanes := array(select distinct t from unnest(p_tenants) t order by t);
    lane_of := array(select array_position(lanes, t) from unnest(p_tenants) t);
    select array_agg(s.at order by t.nth), array_agg(s.cost order by t.nth)
    into at, cost
    from unnest(lanes) with ordinality t(id, nth) join shares(lanes, true) s on s.tenant_id = t.id;
  else
    lanes := array[null::uuid];
    lane_of := array_fill(1, array[cardinality(p_tenants)]);
    at := '{0}';
    cost := '{0}';
  end if;
  taken := array_fill(0, array[cardinality(lanes)]);
  is_open := array_fill(true, array[cardinality(lanes)]);
  groups := array(select count(*) from unnest(lane_of) l group by l order by l);
  -- Each round shares out what is left among the lanes that may have more.
  while want > 0 and round < 6 and true = any (is_open) loop
    -- In steps of some jobs where many are wanted, and at most twice its part for one lane: the next round goes on.
    step := greatest(1, want / 128);
    max_steps := 2 * (want / step / cardinality(array_positions(is_open, true)) + 1);
    quota := case when cardinality(lanes) = 1 then array[want] else array(
      select coalesce(q.jobs, 0) from generate_subscripts(lanes, 1) g(i)
      left join (
        select p.i, least(want, count(*) * step) as jobs
        from (
          select s.i from unnest(at, cost, is_open) with ordinality s(at, cost, is_open, i)
          cross join generate_series(0, max_steps - 1) k
          where s.is_open
          order by s.at + k * step * s.cost, s.i
          limit (want + step - 1) / step) p
        group by p.i) q on q.i = g.i
      order by g.i) end;
    depth := array(
      select least(n.need, greatest(depth[g.i], case when groups[g.lane] = 1 then n.need else (n.mean + 2 * sqrt(n.mean) + 2)::int end))
      from unnest(lane_of) with ordinality g(lane, i)
      cross join lateral (select quota[g.lane] + taken[g.lane] as need, (quota[g.lane] + taken[g.lane])::float8 / groups[g.lane] as mean) n
      order by g.i);
    with locked as materialized (
      select g.i, g.lane, a.at, a.priority, a.created_at, a.nth = g.depth and g.depth < quota[g.lane] + taken[g.lane] as is_last
      from unnest(p_types, p_tenants, p_priorities, p_since, lane_of, depth)
        with ordinality g(job_type, tenant_id, priority, since, lane, depth, i)
      cross join lateral (
        select b.*, row_number() over () as nth
        from (
          -- Those of the rounds before are locked by this claim, which does not pass over them.
          select * from (
            select j.ctid as at, j.priority, j.created_at from only jobs j
            where is_ready(j)
              and j.job_type = g.job_type and j.tenant_id = g.tenant_id and g.priority is null
            order by j.priority desc, j.created_at limit g.depth for update skip locked) every
          union all
          select * from (
            select j.ctid as at, j.priority, j.created_at from only jobs j
            where is_ready(j)
              and j.job_type = g.job_type and j.tenant_id = g.tenant_id
              and j.priority = g.priority and j.created_at >= g.since
            order by j.priority desc, j.created_at limit g.depth for update skip locked) resumed) b) a
      where quota[g.lane] > 0),
    ranked as (
      select l.*, row_number() over (partition by l.lane order by l.priority desc, l.created_at, l.at) as place from locked l),
    chosen as materialized (
      select b.i, b.lane, b.at, b.is_last, b.bound is not null as is_bounded
      from (select r.*, min(r.place) filter (where r.is_last) over (partition by r.lane) as bound from ranked r) b
      where b.place > taken[b.lane] and b.place <= least(taken[b.lane] + quota[b.lane], b.bound)),
    by_lane as (
      select t.i, coalesce(n.jobs, 0) as jobs, t.is_open and (coalesce(n.jobs, 0) >= quota[t.i] or n.is_bounded) as is_open
      from unnest(is_open) with ordinality t(is_open, i)
      left join (select c.lane, count(*)::int as jobs, bool_or(c.is_bounded) as is_bounded from chosen c group by c.lane) n on n.lane = t.i)
    select picked || array(select c.at from chosen c),
      array(select case when d.i = any (array(select c.i from chosen c where c.is_last)) then 4 * d.depth else d.depth end
            from unnest(depth) with ordinality d(depth, i) order by d.i),
      array_agg(at[b.i] + b.jobs * cost[b.i] order by b.i), array_agg(taken[b.i] + b.jobs order by b.i), array_agg(coalesce(b.is_open, false) order by b.i)
    into picked, depth, at, taken, is_open
    from by_lane b;
    want := p_want - cardinality(picked);
    round := round + 1;
  end loop;
  has_more := true = any (is_open);
  if p_fair then
    perform move_share_clock((
      select min(t.at - t.taken * t.cost) from unnest(at, cost, taken) t(at, cost, taken) where t.taken > 0));
  end if;
end $$;
