-- Looks at up to p_limit finished jobs of a tenant, by id, and moves them into history with their attempts, runs, steps and all other rows of
-- theirs (see history_tables); there they are read as before. Stays where it is: what has an id that was not made by Atlas, or less than two
-- hours ago; what is not metered yet, with an hour to spare for transactions in flight; dead letters; children of a run that still goes on or is a dead
-- letter; jobs of a group that has not ended; mails that hold a time to be sent at; rows that are locked. p_keep_days: for how long the tenant keeps its jobs, null for
-- ever. p_whole: attempts and steps are kept for as long; otherwise jobs that still have some stay, until retention has removed those.
-- What each table holds of the tenant is stored, for lists and drops: see history_keys and count_history_part. All of it is one transaction: a crash leaves a job in one of the two places. It runs as the owner of the tables. Locks: history, then job
-- rows in ascending id. Called by engine/retention/history.py.
create or replace function move_to_history(
  p_tenant uuid, p_after uuid, p_until uuid, p_limit int, p_keep_days int, p_whole boolean default false
) returns table (looked int, last uuid, moved int) language plpgsql volatile security definer
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off set lock_timeout = '2s' as $$
declare
  metered constant timestamptz := (
    select (s.value->>'read_until')::timestamptz - interval '1 hour' from system_state s where s.key = 'usage_meter');
  batch uuid[];
  chosen uuid[];
  days date[];
  statuses job_status[];
  finished record;
  side record;
  target text;
  has_rows boolean;
  count int;
  attempts int;
  steps int;
begin
  -- Whoever reopens a run brings its children back first, and holds this shared.
  perform pg_advisory_xact_lock(lock_class('history'), 0);
  -- Not in the head of the function: before Postgres 16 only a superuser may name a parameter of ours there.
  perform set_config('atlas.is_moving', 'on', true), set_config('atlas.is_counting', 'on', true);
  batch := array(
    select j.id from only jobs j
    where j.tenant_id = p_tenant and j.status in ('succeeded', 'failed', 'canceled') and j.id > p_after and j.id < least(p_until, history_horizon(2))
    order by j.id limit p_limit);
  looked := case when metered is null then 0 else cardinality(batch) end;
  last := batch[cardinality(batch)];
  moved := 0;
  if looked > 0 then
    with locked as (
      select j.id, j.status, (j.finished_at at time zone 'UTC')::date as day from only jobs j
      where j.id = any (batch) and j.status in ('succeeded', 'failed', 'canceled') and j.finished_at < metered and j.dead_lettered_at is null
        and not exists (
          select from only jobs p where p.id = j.parent_run_id and (p.status in ('queued', 'running') or p.dead_lettered_at is not null))
        and not exists (select from job_groups g where g.id = j.group_id and g.ended_at is null)
      order by j.id for update skip locked)
    select array_agg(l.id), array_agg(l.status), array_agg(case when p_keep_days is null then date_trunc('month', l.day)::date else l.day end)
    into chosen, statuses, days from locked l;
  end if;
  -- In a newer snapshot than that of the locks: whoever adds a row to a job that is locked waits for it.
  for finished in
    select c.day, array_agg(c.id order by c.id) as ids, count(*) filter (where c.status = 'failed') as failed,
      count(*) filter (where c.status = 'canceled') as canceled
    from unnest(chosen, statuses, days) c(id, status, day)
    where not exists (select from only mail_slots m where m.job_id = c.id and m.slot_at > clock_timestamp())
      and (p_whole or not exists (select from only job_attempts a where a.job_id = c.id)
                  and not exists (select from only workflow_steps s where s.run_id = c.id))
    group by c.day
    order by c.day
  loop
    attempts := 0;
    steps := 0;
    for side in select t.name, t.key from history_tables() t loop
      -- Most jobs have no rows there: the first look compares no ids.
      execute format('select exists (select from only %1$I s where s.%2$I between $2 and $3) and exists (select from only %1$I s where s.%2$I = any ($1))',
        side.name, side.key) into has_rows using finished.ids, finished.ids[1], finished.ids[cardinality(finished.ids)];
      if has_rows then
        execute format('with gone as (delete from only %1$I s where s.%2$I = any ($1) returning s.*) insert into %3$I select * from gone',
          side.name, side.key, add_history_part(p_keep_days, finished.day, side.name)) using finished.ids;
        get diagnostics count = row_count;
        attempts := attempts + case when side.name = 'job_attempts' then count else 0 end;
        steps := steps + case when side.name = 'workflow_steps' then count else 0 end;
      end if;
    end loop;
    target := add_history_part(p_keep_days, finished.day);
    execute format('insert into %I select * from only jobs j where j.id = any ($1)', target) using finished.ids;
    get diagnostics count = row_count;
    -- The checks of the keys that refer to jobs are planned once, not for each job and key.
    perform set_config('plan_cache_mode', 'auto', true);
    delete from only jobs j where j.id = any (finished.ids);
    perform set_config('plan_cache_mode', 'force_custom_plan', true);
    moved := moved + count;
    insert into history_contents as c (part, tenant_id, min_id, max_id, jobs, failed, canceled, attempts, steps)
    values (substring(target from '_history_(.*)$'), p_tenant, finished.ids[1],
      finished.ids[cardinality(finished.ids)], count, finished.failed, finished.canceled, attempts, steps)
    on conflict (part, tenant_id) do update
    set min_id = least(c.min_id, excluded.min_id), max_id = greatest(c.max_id, excluded.max_id), jobs = c.jobs + excluded.jobs,
      failed = c.failed + excluded.failed, canceled = c.canceled + excluded.canceled, attempts = c.attempts + excluded.attempts,
      steps = c.steps + excluded.steps;
    -- A bound that is not known stays unknown.
    insert into history_bounds as b (part, min_id, max_id)
    values (substring(target from '_history_(.*)$'), finished.ids[1], finished.ids[cardinality(finished.ids)])
    on conflict (part) do update
    set min_id = case when b.min_id < excluded.min_id then b.min_id when b.min_id is not null then excluded.min_id end,
      max_id = greatest(b.max_id, excluded.max_id)
    where b.min_id > excluded.min_id or b.max_id < excluded.max_id;
  end loop;
  perform set_config('atlas.is_moving', 'off', true), set_config('atlas.is_counting', 'off', true);
  return next;
end $$;
