-- held -> ready, for the next jobs of one limit: as many as its concurrency and its tokens allow, by priority and age. Returns how many;
-- null: another claim is at this limit, and what happened stays recorded for the next.
-- Tokens are taken when jobs start. Never are more jobs released and not started than there are whole tokens, so that in no time more
-- jobs start than the rate allows and the burst, also after all workers stood still.
-- Wakes other workers for jobs whose type is not among p_types.
-- While a transaction holds the xmin horizon, the indexes have an entry for each job that has run since. Where that makes reading them slow, and p_may_keep is true, counted_jobs
-- keeps which jobs count and where those begin that are held. Both change here alone, but for jobs that become held, whose events have their places. After an event without one,
-- and after five minutes, the indexes are read again.
-- Locks: limit (tried), job rows (skipping locked ones). Called by release_held.
create or replace function release_limit(p_limit uuid, p_most int, p_types text[], p_may_keep boolean) returns int language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off set enable_incremental_sort = off set jit = off as $$
#variable_conflict use_column
declare
  began_at constant timestamptz := clock_timestamp();
  read_before constant bigint := case when p_may_keep then limit_entries_read() end;
  kept counted_jobs;
  -- Those that the limit may count; null: they are counted along the indexes.
  counted uuid[];
  not_started int;
  events record;
  bucket job_limits;
  first record;
  terms record;
  by_rate int;
  room int;
  has_more boolean;
  again uuid[] := '{}';
  picked uuid[] := '{}';
begin
  if not pg_try_advisory_xact_lock(lock_class('limit'), hashtext(p_limit::text)) then
    return null;
  end if;
  -- As long as nothing was kept, the table has no page.
  if pg_relation_size('counted_jobs') > 0 then
    select * into kept from counted_jobs c where c.limit_id = p_limit order by c.n desc limit 1;
    if kept.until > began_at and (
        select true from limit_events e
        where e.limit_id = p_limit and e.id > kept.ids_from and case when e.held_since = '-infinity' then true else false end
        order by e.limit_id, e.id limit 1) is null then
      counted := kept.ids;
    end if;
  end if;
  -- Counted before the events are taken: a job that starts meanwhile is counted twice rather than not at all. Slots are counted
  -- afterwards: the event of a job that ends meanwhile is still there for the next look.
  -- The order is that of the one index to use: by its statistics, that of all queued jobs may look cheaper, and is walked from end to end.
  if counted is null then
    not_started := (
      select count(*) from (
        select from only jobs where limit_id between p_limit and p_limit and status = 'queued' and held_by is distinct from limit_id
        order by limit_id) l) + (
      select count(*) from (
        select from only jobs where rate_id between p_limit and p_limit and status = 'queued' and held_by is null order by rate_id) r);
    with taken as (delete from limit_events where limit_id = p_limit returning started, id)
    select count(*) filter (where t.started)::int as began, max(t.id) as newest, null::int[] as priorities, null::timestamptz[] as since into events from taken t;
    update job_limits
    set tokens = least(burst, tokens + per_second * greatest(0, extract(epoch from clock_timestamp() - refilled_at))) - events.began,
        refilled_at = clock_timestamp(), release_at = null
    where id = p_limit returning * into bucket;
    select coalesce(limit_id = p_limit, false) as of_type, job_type, tenant_id, limit_key into first from only jobs
    where held_by = p_limit and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00'
    order by priority desc, created_at limit 1;
  else
    not_started := (
      select count(*) from only jobs j
      where j.id = any (counted)
        and case when j.status <> 'queued' then false when j.limit_id = p_limit then j.held_by is distinct from p_limit else j.held_by is null end);
    select * into events from take_limit_events(kept);
    update job_limits
    set tokens = least(burst, tokens + per_second * greatest(0, extract(epoch from clock_timestamp() - refilled_at))) - events.began,
        refilled_at = clock_timestamp(), release_at = null
    where ctid = any (array(select l.ctid from job_limits l where l.id = p_limit order by l.id, l.refilled_at desc limit 1)) and id = p_limit
    returning * into bucket;
    select coalesce(j.limit_id = p_limit, false) as of_type, j.job_type, j.tenant_id, j.limit_key into first
    from held_places(p_limit, events.priorities, events.since) h
    cross join lateral (
      select * from only jobs j
      where j.held_by = p_limit and j.status = 'queued' and j.next_retry_at >= '9999-01-01 00:00:00+00'
        and j.priority = h.p_priorities[1] and j.created_at >= h.p_since[1]
      order by j.priority desc, j.created_at limit 1) j;
  end if;
  if found then
    -- The terms as they are now, also for jobs that were held under others.
    if first.of_type then
      select case when concurrency_key is not null then concurrency end as most, rate, burst into terms
      from job_types where key = first.job_type;
    else
      select null::int as most, limits->>'rate' as rate, (limits->>'burst')::int as burst into terms from tenants where id = p_limit;
    end if;
    if terms.rate is not null then
      if bucket.id is null or bucket.per_second <> rate_per_second(terms.rate) or bucket.burst <> rate_burst(terms.rate, terms.burst) then
        insert into job_limits (id, tenant_id, per_second, burst, tokens)
        values (p_limit, case when not first.of_type or first.limit_key is not null then first.tenant_id end,
          rate_per_second(terms.rate), rate_burst(terms.rate, terms.burst), rate_burst(terms.rate, terms.burst) - events.began)
        on conflict (id) do update set per_second = excluded.per_second, burst = excluded.burst,
          tokens = least(job_limits.tokens, excluded.burst)
        returning * into bucket;
      end if;
      by_rate := greatest(0, floor(bucket.tokens) - not_started);
    elsif bucket.id is not null then
      delete from job_limits where id = p_limit;
    end if;

    if terms.most is not null then
      if counted is null then
        room := greatest(0, terms.most - (
          select count(*) from only jobs where limit_id = p_limit and has_slot and status in ('queued', 'running')));
      else
        room := greatest(0, terms.most - (
          select count(*) from only jobs
          where id = any (counted) and case when limit_id = p_limit and has_slot then status in ('queued', 'running') else false end));
      end if;
      -- A retry has its slot and needs a token only.
      if terms.rate is not null and counted is null then
        again := array(
          select id from only jobs
          -- Few jobs have slots, many are held: the second condition is opaque, so that the planner takes the index of the first.
          where limit_id = p_limit and status = 'queued' and has_slot
            and case when held_by = p_limit then next_retry_at >= '9999-01-01 00:00:00+00' else false end
          order by priority desc, created_at limit least(by_rate, p_most) for update skip locked);
      elsif terms.rate is not null then
        again := array(
          select id from only jobs
          where id = any (counted)
            and case when status = 'queued' and has_slot and held_by = p_limit then next_retry_at >= '9999-01-01 00:00:00+00' else false end
          order by priority desc, created_at limit least(by_rate, p_most) for update skip locked);
      end if;
      if counted is null then
        picked := again || array(
          select id from only jobs
          where held_by = p_limit and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00' and has_slot is not true
          order by priority desc, created_at limit least(by_rate - cardinality(again), room, p_most) for update skip locked);
      else
        picked := again || pick_held(p_limit, events.priorities, events.since, least(by_rate - cardinality(again), room, p_most), true);
      end if;
      room := room - (cardinality(picked) - cardinality(again));
    elsif counted is null then
      picked := array(
        select id from only jobs
        where held_by = p_limit and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00'
        order by priority desc, created_at limit least(by_rate, p_most) for update skip locked);
    else
      picked := pick_held(p_limit, events.priorities, events.since, least(by_rate, p_most), false);
    end if;
    by_rate := by_rate - cardinality(picked);
    if cardinality(picked) > 0 then
      -- Behind the limit of its type it may wait for the rate of its tenant.
      update only jobs
      set held_by = case when first.of_type then rate_id end,
          has_slot = case when terms.most is not null then true else has_slot end,
          next_retry_at = case when first.of_type and rate_id is not null then next_retry_at end,
          due_at = clock_timestamp()
      where id = any (picked) and case when status = 'queued' and held_by = p_limit then true else false end;
      insert into limit_events (limit_id, tenant_id, priority, held_since)
      select rate_id, tenant_id, priority, min(created_at) from only jobs where id = any (picked) and case when held_by is not null then true else false end
      group by rate_id, tenant_id, priority;
      if exists (
        select from only jobs where id = any (picked)
          and case when next_retry_at is null then host_id is not null or (job_type = any (p_types)) is not true else false end) then
        perform pg_notify(current_schema() || '_jobs', '');
      end if;
    end if;
    if counted is null then
      has_more := (
        select true from only jobs where held_by = p_limit and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00'
        order by priority desc, created_at limit 1);
    else
      has_more := (select cardinality(h.p_priorities) > 0 from held_places(p_limit, events.priorities, events.since) h);
    end if;
    if has_more then
      if by_rate < 1 then
        -- The next token, or a few where they come fast. Where every token is for a job that has not started, its start is waited for.
        update job_limits
        set release_at = clock_timestamp() + interval '1 second' * greatest(
          (floor(tokens) + 1 - tokens) / per_second, least(0.02, burst / per_second / 2))
        where ctid = any (array(select l.ctid from job_limits l where l.id = p_limit order by l.id, l.refilled_at desc limit 1))
          and id = p_limit and not_started + cardinality(picked) < burst;
      elsif coalesce(room, 1) > 0 then
        -- More than p_most, or rows that others hold just now: look again.
        insert into limit_events (limit_id, tenant_id, held_since) values (p_limit, first.tenant_id, null);
      end if;
    end if;
  end if;
  if counted is not null then
    update counted_jobs k
    set n = default, ids = released_jobs(p_limit, counted || picked), priorities = h.p_priorities, held_since = h.p_since,
        ids_from = events.taken_to, next_ids = events.next_ids, next_xid = events.next_xid
    from held_places(p_limit, events.priorities, events.since) h
    where k.limit_id = p_limit and k.n = kept.n;
  else
    if kept.n is not null then
      delete from counted_jobs where limit_id = p_limit and n = kept.n;
    end if;
    if p_may_keep and limit_entries_read() - read_before > slow_entries() + 8 * (not_started + cardinality(picked)) then
      insert into counted_jobs (limit_id, ids, priorities, held_since, next_ids, next_xid, until)
      select p_limit, released_jobs(p_limit, null), h.p_priorities, h.p_since, events.newest, pg_snapshot_xmax(pg_current_snapshot()),
        began_at + greatest(interval '5 minutes', 500 * (clock_timestamp() - began_at))
      from held_places(p_limit, null, null) h;
    end if;
  end if;
  return cardinality(picked);
end $$;
