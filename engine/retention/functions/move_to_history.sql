-- Looks at the next p_limit jobs by id, from p_from on, and moves those of these tenants that are finished into history with their attempts, runs, steps and
-- all other rows of theirs (see history_tables); there they are read as before. Stays where it is: what has an id that was not made by Atlas, or less than two
-- hours ago; what is not metered yet, with an hour to spare for transactions in flight; dead letters; children of a run that still goes on or is a dead
-- letter; jobs of a group that has not ended; mails that hold a time to be sent at; rows that are locked. p_keep_days: for how long the tenants keep their jobs,
-- null for ever. p_whole: attempts and steps are kept for as long; otherwise jobs that still have some stay, until retention has removed those.
-- Ids are ordered by time, so the jobs of a batch lie together, and nearly all go into the table of one day, however many tenants they are of. `next_id`: where
-- the next batch begins, null after the last one. Where hardly any of these jobs moved, that is the next finished job.
-- What each table holds of a tenant is stored, for lists and drops: see history_keys and count_history_part. All of it is one transaction: a crash leaves a
-- job in one of the two places. It runs as the owner of the tables. Locks: history, then job rows in ascending id. Called by engine/retention/history.py.
create or replace function move_to_history(
  p_tenants uuid[], p_from uuid, p_limit int, p_keep_days int, p_whole boolean default false
) returns table (next_id uuid, moved int) language plpgsql volatile security definer
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off set lock_timeout = '2s' as $$
declare
  metered constant timestamptz := (
    select (s.value->>'read_until')::timestamptz - interval '1 hour' from system_state s where s.key = 'usage_meter');
  batch uuid[];
  chosen uuid[];
  tenants uuid[];
  statuses job_status[];
  days date[];
  finished record;
  side record;
  target text;
  has_rows boolean;
  keys uuid[];
  attempts uuid[];
  steps uuid[];
begin
  moved := 0;
  if metered is null then
    return next;
    return;
  end if;
  -- Whoever reopens a run brings its children back first, and holds this shared.
  perform pg_advisory_xact_lock(lock_class('history'), 0);
  -- Not in the head of the function: before Postgres 16 only a superuser may name a parameter of ours there.
  perform set_config('atlas.is_moving', 'on', true), set_config('atlas.is_counting', 'on', true);
  batch := array(select j.id from only jobs j where j.id >= p_from and j.id < history_horizon(2) order by j.id limit p_limit + 1);
  next_id := batch[p_limit + 1];
  with locked as (
    select j.id, j.tenant_id, j.status, (j.finished_at at time zone 'UTC')::date as day from only jobs j
    where j.id = any (batch[:p_limit]) and j.tenant_id = any (p_tenants)
      and case when j.status in ('succeeded', 'failed', 'canceled') then j.finished_at < metered and j.dead_lettered_at is null else false end
      and not exists (
        select from only jobs p where p.id = j.parent_run_id and (p.status in ('queued', 'running') or p.dead_lettered_at is not null))
      and not exists (select from job_groups g where g.id = j.group_id and g.ended_at is null)
    order by j.id for update skip locked)
  select array_agg(l.id), array_agg(l.tenant_id), array_agg(l.status),
    array_agg(case when p_keep_days is null then date_trunc('month', l.day)::date else l.day end)
  into chosen, tenants, statuses, days from locked l;
  -- In a newer snapshot than that of the locks: whoever adds a row to a job that is locked waits for it.
  for finished in
    select c.day, array_agg(c.id order by c.id) as ids, array_agg(c.tenant_id order by c.id) as tenants, array_agg(c.status order by c.id) as statuses
    from unnest(chosen, tenants, statuses, days) c(id, tenant_id, status, day)
    where not exists (select from only mail_slots m where m.job_id = c.id and m.slot_at > clock_timestamp())
      and (p_whole or not exists (select from only job_attempts a where a.job_id = c.id)
                  and not exists (select from only workflow_steps s where s.run_id = c.id))
    group by c.day
    order by c.day
  loop
    attempts := '{}';
    steps := '{}';
    for side in select t.name, t.key from history_tables() t loop
      -- Most jobs have no rows there: the first look compares no ids.
      execute format('select exists (select from only %1$I s where s.%2$I between $2 and $3) and exists (select from only %1$I s where s.%2$I = any ($1))',
        side.name, side.key) into has_rows using finished.ids, finished.ids[1], finished.ids[cardinality(finished.ids)];
      if has_rows then
        execute format('with gone as (delete from only %1$I s where s.%2$I = any ($1) returning s.*),
            filed as (insert into %3$I select * from gone)
            select array_agg(g.%2$I) from gone g',
          side.name, side.key, add_history_part(p_keep_days, finished.day, side.name)) into keys using finished.ids;
        attempts := case when side.name = 'job_attempts' then keys else attempts end;
        steps := case when side.name = 'workflow_steps' then keys else steps end;
      end if;
    end loop;
    target := add_history_part(p_keep_days, finished.day);
    execute format('insert into %I select * from only jobs j where j.id = any ($1) order by j.id', target) using finished.ids;
    -- The checks of the keys that refer to jobs are planned once, not for each job and key.
    perform set_config('plan_cache_mode', 'auto', true);
    delete from only jobs j where j.id = any (finished.ids);
    perform set_config('plan_cache_mode', 'force_custom_plan', true);
    moved := moved + cardinality(finished.ids);
    perform note_history_contents(substring(target from '_history_(.*)$'), finished.ids, finished.tenants, finished.statuses, attempts, steps);
  end loop;
  perform set_config('atlas.is_moving', 'off', true), set_config('atlas.is_counting', 'off', true);
  if moved < p_limit / 10 and next_id is not null then
    next_id := (
      select n.id from unnest(p_tenants) t(id)
      cross join lateral (
        select j.id from only jobs j
        where j.tenant_id = t.id and j.status in ('succeeded', 'failed', 'canceled') and j.id >= next_id and j.id < history_horizon(2)
        order by j.id limit 1) n
      order by n.id limit 1);
  end if;
  return next;
end $$;

-- The same for one tenant, as schedulers of the version before call it while machines are upgraded one by one.
create or replace function move_to_history(
  p_tenant uuid, p_after uuid, p_until uuid, p_limit int, p_keep_days int, p_whole boolean default false
) returns table (looked int, last uuid, moved int) language sql volatile
begin atomic
  select case when m.next_id < p_until then p_limit else 0 end, m.next_id, m.moved
  from move_to_history(array[p_tenant], p_after, p_limit, p_keep_days, p_whole) m;
end;
