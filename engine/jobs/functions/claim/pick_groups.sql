-- Locks up to p_want of the best jobs of these ready groups (see ready_groups) and returns their addresses. With p_fair tenants share them
-- by what they have used (see shares), and priority orders the jobs of one; otherwise priority and age order all jobs.
-- A group with a priority is only its jobs of that priority that were created since p_since: see resume_places.
-- `has_more`: some may have more than was taken. Called by pick_ready.
-- A lane is what has one order: a tenant, or everything. Of each group in a lane some jobs are locked; those that come before the last one of
-- every group that may have more are the next of the lane. The first round locks an even part of each group and one job more, later rounds go on
-- behind the last locked job of the groups that ended too early. So little more is locked than is taken, whatever the order of the types.
create or replace function pick_groups(
  p_types text[], p_tenants uuid[], p_priorities int[], p_since timestamptz[], p_want int, p_fair boolean, out picked tid[], out has_more boolean
) language plpgsql volatile
set search_path from current as $$
declare
  lanes uuid[];
  -- By group: its lane.
  lane_of int[];
  -- By lane: when it is served next in virtual time, what a job costs, how many groups it has, how many jobs were taken, whether it may have
  -- more, and how many to have taken after this round. A group that may have more than was locked bounds its lane by its last locked job.
  at float8[];
  cost float8[];
  groups int[];
  taken int[];
  is_open boolean[];
  quota int[];
  need int[];
  -- Those that were read in an earlier round.
  was_read boolean[];
  -- By group that is read in this round: its number, how many of its jobs to lock, and behind which priority and age.
  reads int[];
  depths int[];
  after_priority int[];
  after_created timestamptz[];
  -- By locked job: its group, address, priority and age, its place in its lane, and whether its group may have more behind it.
  group_of int[] := '{}';
  addresses tid[] := '{}';
  priorities int[] := '{}';
  ages timestamptz[] := '{}';
  places int[] := '{}';
  are_last boolean[] := '{}';
  step int;
  max_steps int;
  want int := p_want;
  round int := 0;
begin
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
  was_read := array_fill(false, array[cardinality(lanes)]);
  has_more := false;
  groups := array(select count(*) from unnest(lane_of) l group by l order by l);
  -- Each round shares out what is left among the lanes that may have more.
  while want > 0 and round < 8 and true = any (is_open) loop
    -- In steps of some jobs where many are asked for, and at most twice its part for one lane: the next round goes on.
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
    need := array(select t.taken + t.quota from unnest(taken, quota) with ordinality t(taken, quota, i) order by t.i);
    -- Of a lane that is read for the first time its groups from where they begin. Of the others those that ended too early: as many more as the
    -- group would have among the jobs that are needed, if they are spread as those that are locked.
    select coalesce(array_agg(r.i), '{}'), array_agg(r.depth), array_agg(r.priority), array_agg(r.created_at),
      has_more or count(r.created_at) > 0
    into reads, depths, after_priority, after_created, has_more
    from (
      select g.i, case when groups[g.lane] = 1 then need[g.lane] else least(need[g.lane], need[g.lane] / groups[g.lane] + 2) end as depth,
        null::int as priority, null::timestamptz as created_at
      from unnest(lane_of) with ordinality g(lane, i) where need[g.lane] > 0 and not was_read[g.lane]
      union all
      select l.i, least(need[lane_of[l.i]], 4 + l.locked * (need[lane_of[l.i]] - l.place + 1) / l.place), l.priority, l.created_at
      from (
        select j.i, j.place, j.priority, j.created_at, cardinality(array_positions(group_of, j.i)) as locked
        from unnest(group_of, priorities, ages, places, are_last) j(i, priority, created_at, place, is_last)
        where j.is_last and j.place <= need[lane_of[j.i]] and need[lane_of[j.i]] > taken[lane_of[j.i]]) l) r;
    with locked as materialized (
      select g.i, a.at, a.priority, a.created_at, a.nth = g.depth as is_last
      from unnest(reads, depths, after_priority, after_created) g(i, depth, last_priority, last_created)
      cross join lateral (select p_types[g.i] as job_type, p_tenants[g.i] as tenant_id, p_priorities[g.i] as priority, p_since[g.i] as since offset 0) o
      cross join lateral (
        select b.*, row_number() over () as nth
        from (
          select * from (
            select j.ctid as at, j.priority, j.created_at from only jobs j
            where is_ready(j)
              and j.job_type = o.job_type and j.tenant_id = o.tenant_id and o.priority is null and g.last_priority is null
            order by j.priority desc, j.created_at limit g.depth for update skip locked) every
          union all
          select * from (
            select j.ctid as at, j.priority, j.created_at from only jobs j
            where is_ready(j)
              and j.job_type = o.job_type and j.tenant_id = o.tenant_id
              and j.priority = coalesce(g.last_priority, o.priority) and j.created_at >= coalesce(g.last_created + interval '1 microsecond', o.since)
            order by j.priority desc, j.created_at limit g.depth for update skip locked) resumed
          union all
          select * from (
            select j.ctid as at, j.priority, j.created_at from only jobs j
            where is_ready(j)
              and j.job_type = o.job_type and j.tenant_id = o.tenant_id and o.priority is null and j.priority < g.last_priority
            order by j.priority desc, j.created_at limit g.depth for update skip locked) lower
          limit g.depth) b) a),
    ranked as (
      select e.*, row_number() over (partition by lane_of[e.i] order by e.priority desc, e.created_at, e.at)::int as place
      from (
        select l.* from locked l
        union all
        select j.i, j.at, j.priority, j.created_at, j.is_last and j.i <> all (reads)
        from unnest(group_of, addresses, priorities, ages, are_last) j(i, at, priority, created_at, is_last)) e)
    select coalesce(array_agg(r.i), '{}'), coalesce(array_agg(r.at), '{}'), coalesce(array_agg(r.priority), '{}'), coalesce(array_agg(r.created_at), '{}'),
      coalesce(array_agg(r.place), '{}'), coalesce(array_agg(r.is_last), '{}')
    into group_of, addresses, priorities, ages, places, are_last
    from ranked r;
    -- A lane that got no part of this round is still to be read.
    select array_agg(at[l.i] + (l.jobs - taken[l.i]) * cost[l.i] order by l.i), array_agg(l.jobs order by l.i), array_agg(l.is_open order by l.i),
      array_agg(l.was_read order by l.i)
    into at, taken, is_open, was_read
    from (
      select t.i, case when n.jobs is null then 0 else least(t.need, n.jobs, n.bound) end as jobs, was_read[t.i] or t.need > 0 as was_read,
        case when t.need = 0 then is_open[t.i] else coalesce(n.bound is not null or n.jobs > t.need, false) end as is_open
      from unnest(need) with ordinality t(need, i)
      left join (
        select lane_of[j.i] as lane, count(*)::int as jobs, min(j.place) filter (where j.is_last) as bound
        from unnest(group_of, places, are_last) j(i, place, is_last) group by 1) n on n.lane = t.i) l;
    want := p_want - (select sum(t) from unnest(taken) t);
    round := round + 1;
  end loop;
  picked := array(select j.at from unnest(group_of, addresses, places) j(i, at, place) where j.place <= taken[lane_of[j.i]]);
  -- Jobs of one group that were created in the same microsecond may have been passed over.
  has_more := has_more or true = any (is_open);
  if p_fair then
    perform move_share_clock((
      select min(t.at - t.taken * t.cost) from unnest(at, cost, taken) t(at, cost, taken) where t.taken > 0));
  end if;
end $$;
