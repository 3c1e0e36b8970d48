-- held -> ready, for the next jobs of one limit: as many as its concurrency and its tokens allow, by priority and age. Returns how many;
-- null: another claim is at this limit, and what happened stays recorded for the next.
-- Tokens are taken when jobs start. Never are more jobs released and not started than there are whole tokens, so that in no time more
-- jobs start than the rate allows and the burst, also after all workers stood still.
-- Wakes other workers for jobs whose type is not among p_types.
-- Locks: limit (tried), job rows (skipping locked ones). Called by release_held.
create or replace function release_limit(p_limit uuid, p_most int, p_types text[]) returns int language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off set enable_incremental_sort = off set jit = off as $$
#variable_conflict use_column
declare
  not_started int;
  began int;
  bucket job_limits;
  first record;
  terms record;
  by_rate int;
  room int;
  again uuid[] := '{}';
  picked uuid[];
begin
  if not pg_try_advisory_xact_lock(lock_class('limit'), hashtext(p_limit::text)) then
    return null;
  end if;
  -- Counted before the events are taken: a job that starts meanwhile is counted twice rather than not at all. Slots are counted
  -- afterwards: the event of a job that ends meanwhile is still there for the next look.
  -- The order is that of the one index to use: by its statistics, that of all queued jobs may look cheaper, and is walked from end to end.
  not_started := (
    select count(*) from (
      select from only jobs where limit_id between p_limit and p_limit and status = 'queued' and held_by is distinct from limit_id
      order by limit_id) l) + (
    select count(*) from (
      select from only jobs where rate_id between p_limit and p_limit and status = 'queued' and held_by is null order by rate_id) r);
  with taken as (delete from limit_events where limit_id = p_limit returning started)
  select count(*) filter (where started) into began from taken;
  update job_limits
  set tokens = least(burst, tokens + per_second * greatest(0, extract(epoch from clock_timestamp() - refilled_at))) - began,
      refilled_at = clock_timestamp(), release_at = null
  where id = p_limit returning * into bucket;

  select coalesce(limit_id = p_limit, false) as of_type, job_type, tenant_id, limit_key into first from only jobs
  where held_by = p_limit and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00'
  order by priority desc, created_at limit 1;
  if not found then
    return 0;
  end if;
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
        rate_per_second(terms.rate), rate_burst(terms.rate, terms.burst), rate_burst(terms.rate, terms.burst) - began)
      on conflict (id) do update set per_second = excluded.per_second, burst = excluded.burst,
        tokens = least(job_limits.tokens, excluded.burst)
      returning * into bucket;
    end if;
    by_rate := greatest(0, floor(bucket.tokens) - not_started);
  elsif bucket.id is not null then
    delete from job_limits where id = p_limit;
  end if;

  if terms.most is not null then
    room := greatest(0, terms.most - (
      select count(*) from only jobs where limit_id = p_limit and has_slot and status in ('queued', 'running')));
    -- A retry has its slot and needs a token only.
    if terms.rate is not null then
      again := array(
        select id from only jobs
        -- Few jobs have slots, many are held: the second condition is opaque, so that the planner takes the index of the first.
        where limit_id = p_limit and status = 'queued' and has_slot
          and case when held_by = p_limit then next_retry_at >= '9999-01-01 00:00:00+00' else false end
        order by priority desc, created_at limit least(by_rate, p_most) for update skip locked);
    end if;
    picked := again || array(
      select id from only jobs
      where held_by = p_limit and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00' and has_slot is not true
      order by priority desc, created_at limit least(by_rate - cardinality(again), room, p_most) for update skip locked);
    room := room - (cardinality(picked) - cardinality(again));
  else
    picked := array(
      select id from only jobs
      where held_by = p_limit and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00'
      order by priority desc, created_at limit least(by_rate, p_most) for update skip locked);
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
    insert into limit_events (limit_id, tenant_id)
    select distinct rate_id, tenant_id from only jobs where id = any (picked) and case when held_by is not null then true else false end;
    if exists (
      select from only jobs where id = any (picked)
        and case when next_retry_at is null then host_id is not null or (job_type = any (p_types)) is not true else false end) then
      perform pg_notify(current_schema() || '_jobs', '');
    end if;
  end if;
  if (select true from only jobs where held_by = p_limit and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00'
      order by priority desc, created_at limit 1) then
    if by_rate < 1 then
      -- The next token, or a few where they come fast. Where every token is for a job that has not started, its start is waited for.
      update job_limits
      set release_at = clock_timestamp() + interval '1 second' * greatest(
        (floor(tokens) + 1 - tokens) / per_second, least(0.02, burst / per_second / 2))
      where id = p_limit and not_started + cardinality(picked) < burst;
    elsif coalesce(room, 1) > 0 then
      -- More than p_most, or rows that others hold just now: look again.
      insert into limit_events (limit_id, tenant_id) values (p_limit, first.tenant_id);
    end if;
  end if;
  return cardinality(picked);
end $$;
