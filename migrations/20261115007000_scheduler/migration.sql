-- What happens because time passed, or because something happened: triggers and their firings, recurring functions,
-- usage by the hour, and the removal of what is old.
--
-- Advisory locks besides those of the jobs and the workflows:
--   (42715, 0) held for a session: the scheduler that leads
--   (42716, 0) one meter of usage at a time

create type trigger_type as enum ('event', 'schedule');
create type misfire_policy as enum ('skip', 'latest', 'all');
create type fire_result as enum ('fired', 'swallowed', 'failed');

-- The clock that schedules are due by. A function of its own, so that a proof can let days pass in seconds.
create function atlas_clock() returns timestamptz language sql volatile as $$ select clock_timestamp() $$;

create table job_triggers (
  id                    uuid primary key default gen_random_uuid(),
  tenant_id             uuid not null,
  label                 text not null check (label <> ''),
  is_enabled            boolean not null default true,
  trigger_type          trigger_type not null,
  -- An exact name, or all names under one: provider.*
  event_name            text,
  cron_expr             text,
  -- Null: the tenant's.
  timezone              text,
  definition_key        text,
  job_type              text,
  workflow              text,
  payload_template      jsonb not null default '{}' check (jsonb_typeof(payload_template) = 'object'),
  dedupe_window_seconds int not null default 300 check (dedupe_window_seconds >= 0),
  misfire               misfire_policy not null default 'latest',
  last_fire_at          timestamptz(6),
  -- The first due time that has not been dealt with. Null for a schedule: to be computed from now.
  next_fire_at          timestamptz(6),
  -- Why the last firing failed; null since one succeeded.
  last_error            jsonb,
  created_by            text not null,
  created_at            timestamptz(6) not null default clock_timestamp(),
  updated_at            timestamptz(6) not null default clock_timestamp(),
  deleted_at            timestamptz(6),
  constraint job_triggers_fields_fit_the_type check (
    case trigger_type
      when 'schedule' then cron_expr is not null and event_name is null
      else event_name is not null and cron_expr is null and timezone is null and next_fire_at is null end),
  constraint job_triggers_have_one_target check (num_nonnulls(definition_key, job_type, workflow) = 1),
  constraint job_triggers_deleted_is_disabled check (deleted_at is null or not is_enabled)
) with (fillfactor = 70);
create index job_triggers_tenant on job_triggers (tenant_id, is_enabled);
create index job_triggers_event on job_triggers (event_name) where trigger_type = 'event';
-- What has no next time yet comes first.
create index job_triggers_due on job_triggers (coalesce(next_fire_at, '-infinity')) where trigger_type = 'schedule' and is_enabled;

-- A firing. The row is inserted in the transaction that enqueues, and its two keys are what makes a firing single.
-- One with neither a due time nor an event was asked for by a person.
create table trigger_fires (
  id           uuid primary key default gen_random_uuid(),
  trigger_id   uuid not null,
  tenant_id    uuid not null,
  due_at       timestamptz(6),
  event_id     uuid,
  fired_at     timestamptz(6) not null,
  result       fire_result not null default 'fired',
  -- The job, or the intent and with it the run; of a swallowed firing, those of the one before it.
  job_id       uuid,
  payload_hash bytea,
  error        text,
  created_by   text not null,
  constraint trigger_fires_due unique (trigger_id, due_at),
  constraint trigger_fires_event unique (trigger_id, event_id)
);
create index trigger_fires_payload on trigger_fires (trigger_id, payload_hash, fired_at) where result = 'fired' and payload_hash is not null;
create index trigger_fires_trigger on trigger_fires (trigger_id, fired_at);
create index trigger_fires_tenant on trigger_fires (tenant_id, fired_at);
create index events_age on events (tenant_id, created_at);

-- The leader learns at once that schedules changed; firing, which moves only the times, tells nobody.
create function atlas_triggers_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('atlas_triggers', '');
  return null;
end $$;
create trigger job_triggers_changed after insert or delete or update of is_enabled, trigger_type, cron_expr, timezone on job_triggers
  for each statement execute function atlas_triggers_changed();

-- Schedules follow their tenant's clock: when it is set to another zone, their next times are computed anew.
create function atlas_tenant_moved() returns trigger language plpgsql as $$
begin
  update job_triggers set next_fire_at = null
  where tenant_id = new.id and timezone is null and trigger_type = 'schedule' and deleted_at is null;
  perform pg_notify('atlas_triggers', '');
  return null;
end $$;
create trigger tenants_moved after update of timezone on tenants
  for each row when (old.timezone is distinct from new.timezone) execute function atlas_tenant_moved();

-- May triggers fire now, and what time is it? Begins every firing transaction.
-- Whoever falls silent in the midst of one loses the session after five seconds, and the gate and the rows with it.
create function atlas_firing(out is_open boolean, out now timestamptz, out online_since timestamptz) language plpgsql volatile as $$
begin
  perform set_config('idle_in_transaction_session_timeout', '5s', true);
  is_open := atlas_claim_open(null);
  now := atlas_clock();
  online_since := (select (value->>'since')::timestamptz from system_state where key = 'atlas_online');
end $$;

-- Functions that a program runs again and again: the schedule is here, shared by all, the function only in memory.
create table recurring_jobs (
  tenant_id        uuid not null,
  id               text not null check (id <> ''),
  start_at         timestamptz(6) not null,
  -- 0: once.
  repeat_seconds   float8 not null check (repeat_seconds >= 0),
  timeout_seconds  float8 check (timeout_seconds > 0),
  -- Null: it ran, once, and is done.
  next_run_at      timestamptz(6),
  locked_by        text,
  lease_expires_at timestamptz(6),
  -- Counts the runs, and is the fence of what a run may write.
  run_count        int not null default 0,
  last_started_at  timestamptz(6),
  last_finished_at timestamptz(6),
  last_outcome     text check (last_outcome in ('succeeded', 'failed', 'timeout', 'stopped')),
  last_error       text,
  created_at       timestamptz(6) not null default clock_timestamp(),
  updated_at       timestamptz(6) not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint recurring_jobs_lock_is_whole check ((locked_by is null) = (lease_expires_at is null))
) with (fillfactor = 70);

-- Takes the runs that are due among those that the caller has functions for. Under the gate like every start.
-- Rows that another instance is taking are passed over; a lease that is over frees a run whose instance died.
create function atlas_claim_recurring(p_by text, p_tenants uuid[], p_ids text[], p_lease float8)
returns table (tenant_id uuid, id text, run_count int, timeout_seconds float8) language plpgsql volatile as $$
#variable_conflict use_column
begin
  if not atlas_claim_open(null) then
    return;
  end if;
  return query
  update recurring_jobs r
  set locked_by = p_by, lease_expires_at = clock_timestamp() + p_lease * interval '1 second', run_count = r.run_count + 1,
      last_started_at = clock_timestamp(), updated_at = clock_timestamp()
  from (
    select c.tenant_id, c.id from recurring_jobs c
    join unnest(p_tenants, p_ids) mine(tenant_id, id) on mine.tenant_id = c.tenant_id and mine.id = c.id
    where c.next_run_at <= clock_timestamp() and (c.locked_by is null or c.lease_expires_at < clock_timestamp())
    for update of c skip locked) due
  where r.tenant_id = due.tenant_id and r.id = due.id
  returning r.tenant_id, r.id, r.run_count, r.timeout_seconds;
end $$;

create table usage_hourly (
  tenant_id     uuid not null,
  job_type      text not null,
  -- Its beginning, in UTC.
  hour          timestamptz(6) not null,
  runs          bigint not null default 0,
  succeeded     bigint not null default 0,
  failed        bigint not null default 0,
  timed_out     bigint not null default 0,
  canceled      bigint not null default 0,
  lost          bigint not null default 0,
  run_seconds   float8 not null default 0,
  queue_seconds float8 not null default 0,
  cost_cents    bigint not null default 0,
  updated_at    timestamptz(6) not null default clock_timestamp(),
  primary key (tenant_id, job_type, hour)
) with (fillfactor = 70);

-- How much of a job's cost is metered: a job's row only tells the sum of its attempts. Only for jobs that cost something.
create table usage_costs (
  job_id uuid primary key references jobs (id) on delete cascade,
  cents  int not null
);

-- Meters finished attempts into their hours. Answers how many events it read: as many as asked for means there may be more.
-- Null: another meter is at it.
--
-- Every end of an attempt has an event, written in the transaction that ended it. The meter reads the account by windows
-- between snapshots, as the sealer does: each event falls into exactly one, however late it is committed. The place it has
-- reached moves in the transaction that adds to the hours, so that a crash neither loses an attempt nor counts one twice.
create function atlas_meter_usage(p_limit int) returns int language plpgsql volatile
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  place jsonb;
  cluster bigint := atlas_system_identifier();
  newest int;
  now_epoch int;
  prev pg_snapshot := '1:1:';
  cur pg_snapshot;
  taken_at timestamptz;
  after_xid xid8 := '0';
  after_id bigint := 0;
  read int;
  last_xid xid8;
  last_id bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'metering needs READ COMMITTED, not %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state';
  end if;
  if not pg_try_advisory_xact_lock(42716, 0) then
    return null;
  end if;
  select value into place from system_state where key = 'usage_meter';
  newest := (select max(epoch) from audit_epoch);
  now_epoch := newest;
  -- Another cluster's snapshots say nothing here: a restored account is read from the beginning of its new epoch.
  if place is not null and (place->>'cluster')::bigint = cluster then
    now_epoch := (place->>'epoch')::int;
    prev := (place->>'prev')::pg_snapshot;
    cur := (place->>'cur')::pg_snapshot;
    taken_at := (place->>'taken_at')::timestamptz;
    after_xid := (place->>'xid')::xid8;
    after_id := (place->>'id')::bigint;
  end if;
  if cur is null then
    -- The horizon comes in an earlier statement than the rows, so that whatever it shows is visible to them.
    taken_at := clock_timestamp();
    cur := pg_current_snapshot();
  end if;

  with rows as materialized (
    select w.xid, w.id, w.tenant_id, w.action, w.entity_type, w.entity_id, w.meta, w.created_at
    from atlas_audit_window(now_epoch, prev, cur, after_xid, after_id, null, null, null, p_limit) w),
  ends as materialized (
    select distinct on (r.entity_id, r.meta->>'attempt') r.entity_id::uuid as job_id, (r.meta->>'attempt')::int as attempt_no,
      r.tenant_id, r.action, r.created_at
    from rows r
    where r.entity_type = 'job' and jsonb_typeof(r.meta->'attempt') = 'number'
    order by r.entity_id, r.meta->>'attempt', r.id desc),
  -- what the rows of the attempt and its job say; of a job that is deleted already, the account itself
  attempts as materialized (
    select e.job_id, coalesce(j.tenant_id, e.tenant_id) as tenant_id,
      coalesce(j.job_type, made.job_type, 'deleted') as job_type,
      coalesce(a.status::text, case when j.id is not null then 'succeeded'
        when e.action in ('JOB_FAILED', 'JOB_EXHAUSTED_RETRIES', 'JOB_RETRY_SCHEDULED', 'WORKFLOW_FAILED', 'WORKFLOW_NOT_FOUND') then 'failed'
        when e.action in ('LEASE_EXPIRED', 'JOB_POISONED') then 'lost'
        when e.action = 'JOB_CANCELED' then 'canceled' else 'succeeded' end) as status,
      coalesce(a.finished_at, j.finished_at, e.created_at) as finished_at,
      coalesce(extract(epoch from coalesce(a.finished_at, j.finished_at) - coalesce(a.started_at, j.started_at)), 0) as run_seconds,
      coalesce(extract(epoch from coalesce(a.started_at, j.started_at)
        - case when e.attempt_no = 1 then j.created_at else b.finished_at end), 0) as queue_seconds
    from ends e
    left join job_attempts a on a.job_id = e.job_id and a.attempt_no = e.attempt_no
    left join jobs j on j.id = e.job_id and (a.job_id is not null or j.attempt_count = e.attempt_no)
    left join job_attempts b on b.job_id = e.job_id and b.attempt_no = e.attempt_no - 1
    left join lateral (
      select m.meta->>'job_type' as job_type from audit_log m
      where m.entity_id = e.job_id::text and m.action = 'JOB_CREATED' limit 1) made on j.id is null),
  costs as (
    select j.id, j.cost_cents, j.cost_cents - coalesce(c.cents, 0) as cents, l.tenant_id, l.job_type, l.hour
    from (
      select distinct on (t.job_id) t.job_id, t.tenant_id, t.job_type, date_trunc('hour', t.finished_at, 'UTC') as hour
      from attempts t order by t.job_id, t.finished_at desc) l
    join jobs j on j.id = l.job_id
    left join usage_costs c on c.job_id = j.id
    where j.cost_cents <> coalesce(c.cents, 0)),
  known as (
    insert into usage_costs (job_id, cents) select id, cost_cents from costs
    on conflict (job_id) do update set cents = excluded.cents),
  hours as (
    select t.tenant_id, t.job_type, date_trunc('hour', t.finished_at, 'UTC') as hour, count(*) as runs,
      count(*) filter (where t.status = 'succeeded') as succeeded, count(*) filter (where t.status = 'failed') as failed,
      count(*) filter (where t.status = 'timeout') as timed_out, count(*) filter (where t.status = 'canceled') as canceled,
      count(*) filter (where t.status = 'lost') as lost, sum(t.run_seconds) as run_seconds, sum(greatest(0, t.queue_seconds)) as queue_seconds
    from attempts t
    where t.tenant_id is not null
    group by 1, 2, 3),
  added as (
    insert into usage_hourly as u (tenant_id, job_type, hour, runs, succeeded, failed, timed_out, canceled, lost, run_seconds,
      queue_seconds, cost_cents)
    select h.tenant_id, h.job_type, h.hour, h.runs, h.succeeded, h.failed, h.timed_out, h.canceled, h.lost, h.run_seconds,
      h.queue_seconds,
      coalesce((select sum(c.cents) from costs c where c.tenant_id = h.tenant_id and c.job_type = h.job_type and c.hour = h.hour), 0)
    from hours h
    on conflict (tenant_id, job_type, hour) do update
    set runs = u.runs + excluded.runs, succeeded = u.succeeded + excluded.succeeded, failed = u.failed + excluded.failed,
        timed_out = u.timed_out + excluded.timed_out, canceled = u.canceled + excluded.canceled, lost = u.lost + excluded.lost,
        run_seconds = u.run_seconds + excluded.run_seconds, queue_seconds = u.queue_seconds + excluded.queue_seconds,
        cost_cents = u.cost_cents + excluded.cost_cents, updated_at = clock_timestamp())
  select count(*), max(r.xid), (array_agg(r.id order by r.xid desc, r.id desc))[1] into read, last_xid, last_id from rows r;

  if read >= p_limit then
    place := jsonb_build_object('epoch', now_epoch, 'prev', prev, 'cur', cur, 'taken_at', taken_at, 'xid', last_xid, 'id', last_id,
      'metered_until', place->'metered_until');
  elsif now_epoch < newest then
    -- The old epoch is read to its end: no row of it can appear any more.
    place := jsonb_build_object('epoch', newest, 'prev', '1:1:', 'xid', '0', 'id', 0, 'metered_until', place->'metered_until');
    read := p_limit;
  else
    place := jsonb_build_object('epoch', now_epoch, 'prev', cur, 'xid', '0', 'id', 0, 'metered_until', taken_at);
  end if;
  insert into system_state as s (key, value, updated_by)
  values ('usage_meter', place || jsonb_build_object('cluster', cluster), 'usage meter')
  on conflict (key) do update set value = excluded.value, updated_at = clock_timestamp();
  return read;
end $$;

-- Looks at up to p_limit ended jobs of a tenant, by id, and removes what is past its age: jobs, attempts, steps of runs that
-- succeeded. A null moment keeps everything of that kind. Never removes: dead letters and their attempts; what is not metered yet,
-- with an hour to spare for transactions in flight; children of a run that still goes on; rows that someone holds right now.
create function atlas_prune_jobs(
  p_tenant uuid, p_after uuid, p_until uuid, p_limit int, p_jobs timestamptz, p_attempts timestamptz, p_steps timestamptz
) returns table (looked int, last uuid, jobs int, attempts int, steps int) language plpgsql volatile
set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  metered timestamptz := (
    select (s.value->>'metered_until')::timestamptz - interval '1 hour' from system_state s where s.key = 'usage_meter');
  batch uuid[];
  doomed uuid[];
  facts jsonb;
begin
  batch := array(
    select j.id from jobs j
    where j.tenant_id = p_tenant and j.status in ('succeeded', 'failed', 'canceled') and j.id > p_after and j.id < p_until
    order by j.id limit p_limit);
  looked := cardinality(batch);
  last := batch[looked];
  if looked = 0 or metered is null then
    looked := 0;
    return next;
    return;
  end if;
  doomed := array(
    select j.id from jobs j
    where p_jobs is not null and j.id = any (batch) and j.status in ('succeeded', 'failed', 'canceled')
      and j.dead_lettered_at is null and j.finished_at < least(p_jobs, metered)
      and not exists (select from jobs p where p.id = j.parent_run_id and p.status in ('queued', 'running'))
    order by j.id for update skip locked);
  delete from job_attempts a
  using jobs j
  where p_attempts is not null and a.job_id = any (batch) and a.job_id <> all (doomed) and j.id = a.job_id
    and j.status in ('succeeded', 'failed', 'canceled') and j.dead_lettered_at is null
    and a.finished_at < least(p_attempts, metered);
  get diagnostics attempts = row_count;
  -- A run that failed or was canceled may be taken up again where it stopped; one that succeeded may not.
  delete from workflow_steps s
  using jobs j
  where p_steps is not null and s.run_id = any (batch) and s.run_id <> all (doomed) and j.id = s.run_id
    and j.job_type = 'ENGINE_RUN' and j.status = 'succeeded' and j.finished_at < p_steps;
  get diagnostics steps = row_count;
  delete from jobs j where j.id = any (doomed);
  get diagnostics jobs = row_count;
  if jobs + attempts + steps > 0 then
    facts := jsonb_build_object('jobs', jobs, 'attempts', attempts, 'steps', steps, 'first', doomed[1], 'last', doomed[cardinality(doomed)]);
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    values (p_tenant, 'system', 'retention', 'JOBS_PRUNED', 'tenant', p_tenant, facts,
      atlas_audit_body(p_tenant, 'system', 'retention', 'info', 'JOBS_PRUNED', 'tenant', p_tenant::text, '', facts));
  end if;
  return next;
end $$;

-- Removes events that the triggers have seen, and firings, older than a moment. A firing stays while it can swallow another.
create function atlas_prune_events(p_tenant uuid, p_before timestamptz, p_limit int)
returns table (events int, fires int) language plpgsql volatile
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  facts jsonb;
begin
  delete from events e
  where e.id = any (array(
    select o.id from events o
    where o.tenant_id = p_tenant and o.created_at < p_before and (o.handled_at is not null or o.run_id is not null)
    order by o.created_at limit p_limit for update skip locked));
  get diagnostics events = row_count;
  delete from trigger_fires f
  where f.id = any (array(
    select o.id from trigger_fires o
    left join job_triggers t on t.id = o.trigger_id
    where o.tenant_id = p_tenant and o.fired_at < p_before
      and (t.id is null or o.fired_at < clock_timestamp() - t.dedupe_window_seconds * interval '1 second')
    order by o.fired_at limit p_limit for update of o skip locked));
  get diagnostics fires = row_count;
  if events + fires > 0 then
    facts := jsonb_build_object('events', events, 'fires', fires, 'before', p_before);
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    values (p_tenant, 'system', 'retention', 'EVENTS_PRUNED', 'tenant', p_tenant, facts,
      atlas_audit_body(p_tenant, 'system', 'retention', 'info', 'EVENTS_PRUNED', 'tenant', p_tenant::text, '', facts));
  end if;
  return next;
end $$;

do $$
begin
  if exists (select from pg_roles where rolname = 'atlas_engine') then
    grant select, insert, update, delete on job_triggers, trigger_fires, recurring_jobs, usage_hourly, usage_costs to atlas_engine;
  end if;
end $$;
