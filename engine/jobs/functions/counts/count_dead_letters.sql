-- Brings dead_letters and dead_letter_causes up to what these jobs are now: dead letters under a cause, or no longer. Null: all jobs. Whatever
-- happened to a job in between, and however often it is named, it is counted once, under the error that it has.
-- The times and the sample of a cause are those since it had its first dead letter, also of jobs that have left it.
-- The caller holds the lock metering. Called by add_to_dead_letters and count_jobs.
create or replace function count_dead_letters(p_ids uuid[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  all_tenants constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  changed uuid[];
  emptied uuid[];
begin
  if p_ids is null then
    changed := array(
      select coalesce(d.job_id, j.id) from dead_letters d
      full join (select j.id, j.dead_lettered_at from only jobs j where is_listed(j, 'dead_letter')) j on j.id = d.job_id
      where d.dead_lettered_at is distinct from j.dead_lettered_at);
  else
    changed := array(
      select i.id from (select distinct u.id from unnest(p_ids) u(id)) i
      left join dead_letters d on d.job_id = i.id
      left join only jobs j on j.id = i.id
      where d.dead_lettered_at is distinct from j.dead_lettered_at);
  end if;
  if cardinality(changed) = 0 then
    return;
  end if;
  with gone as (
    delete from dead_letters d where d.job_id = any (changed) returning d.tenant_id, d.cause, d.is_unknown),
  counted as (
    update dead_letter_causes c
    set count = c.count - g.count, unknown_outcomes = c.unknown_outcomes - g.unknown_outcomes
    from (
      select g.cause, t.id as tenant_id, count(*) as count, count(*) filter (where g.is_unknown) as unknown_outcomes
      from gone g
      cross join lateral (values (g.tenant_id), (all_tenants)) t(id)
      group by g.cause, t.id) g
    where c.cause = g.cause and c.tenant_id = g.tenant_id
    returning c.cause, c.count)
  select array_agg(distinct c.cause) filter (where c.count = 0) into emptied from counted c;

  with letters as materialized (
    select j.id, j.tenant_id, j.job_type, j.error->>'type' as error_type, left(j.error->>'message', 300) as message,
      error_pattern(j.error->>'message') as error_pattern, coalesce(j.error->>'outcome' = 'unknown', false) as is_unknown, j.dead_lettered_at
    from only jobs j
    where j.id = any (changed) and j.dead_lettered_at is not null),
  -- A cause without a type or a message is that of an empty one: a filter finds them together.
  caused as materialized (
    select l.*, md5(jsonb_build_array(l.job_type, coalesce(l.error_type, ''), coalesce(l.error_pattern, ''))::text)::uuid as cause
    from letters l),
  added as (
    insert into dead_letters (job_id, tenant_id, cause, is_unknown, dead_lettered_at)
    select c.id, c.tenant_id, c.cause, c.is_unknown, c.dead_lettered_at from caused c)
  insert into dead_letter_causes as k (cause, tenant_id, job_type, error_type, error_pattern, message, count, unknown_outcomes, first_at,
    last_at, sample_id)
  select c.cause, t.id, min(c.job_type), min(c.error_type), min(c.error_pattern), (array_agg(c.message order by c.dead_lettered_at desc))[1],
    count(*), count(*) filter (where c.is_unknown), min(c.dead_lettered_at), max(c.dead_lettered_at),
    (array_agg(c.id order by c.dead_lettered_at desc, c.id desc))[1]
  from caused c
  cross join lateral (values (c.tenant_id), (all_tenants)) t(id)
  group by c.cause, t.id
  order by c.cause, t.id
  on conflict (cause, tenant_id) do update
  set count = k.count + excluded.count, unknown_outcomes = k.unknown_outcomes + excluded.unknown_outcomes,
      first_at = case when k.count > 0 then least(k.first_at, excluded.first_at) else excluded.first_at end,
      last_at = greatest(k.last_at, excluded.last_at),
      message = case when excluded.last_at >= k.last_at then excluded.message else k.message end,
      sample_id = case when excluded.last_at >= k.last_at then excluded.sample_id else k.sample_id end;
  delete from dead_letter_causes c where c.cause = any (emptied) and c.count <= 0;
end $$;
