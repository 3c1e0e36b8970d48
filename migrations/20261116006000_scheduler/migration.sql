-- What happens because time passed, or because something happened: triggers and their firings, recurring functions,
-- usage by the hour, counts of jobs, their flow by the minute and hour.

create type trigger_type as enum ('event', 'schedule');
create type misfire_policy as enum ('skip', 'latest', 'all');
create type fire_result as enum ('fired', 'swallowed', 'failed');
create type series_step as enum ('minute', 'hour', 'day');
-- What an audit row about a job says: what happened to it and when; how long it waited for its first attempt, and how long the attempt
-- ran that ended, in seconds.
create type job_event as (tenant_id uuid, job_type text, kind text, happened_at timestamptz(6), wait float8, run float8);
-- An attempt that ended, as the meter sees it. Its cost is what its job has cost since the meter last saw it.
create type ended_attempt as (
  tenant_id uuid, job_type text, status text, finished_at timestamptz(6), run_seconds float8, queue_seconds float8, cost_cents bigint);
create type recurring_outcome as enum ('succeeded', 'failed', 'timeout', 'stopped', 'lost');

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
  -- Who last changed what it starts: on whose behalf it fires. Null: its creator.
  edited_by             text,
  -- Since when a trigger on events has been enabled under its name; what happened before does not fire it. Null: since created.
  active_since          timestamptz(6),
  -- The module whose code declares it, a schedule. Null: a person's.
  declared_by           text,
  constraint job_triggers_fields_fit_the_type check (
    case trigger_type
      when 'schedule' then cron_expr is not null and event_name is null
      else event_name is not null and cron_expr is null and timezone is null and next_fire_at is null end),
  constraint job_triggers_have_one_target check (num_nonnulls(definition_key, job_type, workflow) = 1),
  constraint job_triggers_deleted_is_disabled check (deleted_at is null or not is_enabled)
) with (fillfactor = 70);
create index job_triggers_tenant on job_triggers (tenant_id, is_enabled);
create index job_triggers_event on job_triggers (event_name) where trigger_type = 'event';
-- What the code declares is there once, also when several programs start at the same time.
create unique index job_triggers_from_code on job_triggers (tenant_id, job_type, workflow) nulls not distinct
  where declared_by is not null and deleted_at is null;
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

-- Which scheduler leads, and until when unless it renews its lease.
create table scheduler_leader (
  only_row   boolean primary key default true check (only_row),
  holder     uuid,
  expires_at timestamptz(6) not null default clock_timestamp()
) with (fillfactor = 50);
insert into scheduler_leader default values;

-- Functions that a program runs again and again: the schedule is here, shared by all, the function only in memory.
create table recurring_jobs (
  tenant_id        uuid not null,
  id               text not null check (id <> ''),
  start_at         timestamptz(6) not null,
  -- 0: once. Its row goes when that run has ended.
  repeat_seconds   float8 not null check (repeat_seconds >= 0),
  timeout_seconds  float8 check (timeout_seconds > 0),
  next_run_at      timestamptz(6) not null,
  -- The last run, which may not have ended yet.
  run_id           uuid,
  run_count        int not null default 0,
  created_at       timestamptz(6) not null default clock_timestamp(),
  updated_at       timestamptz(6) not null default clock_timestamp(),
  primary key (tenant_id, id)
) with (fillfactor = 70);

-- Every run of a recurring function, also of those that are no longer registered. One that has not ended holds a lease, which its
-- process renews.
create table recurring_runs (
  id               uuid primary key default gen_random_uuid(),
  tenant_id        uuid not null,
  recurring_id     text not null,
  due_at           timestamptz(6) not null,
  -- Above 1: the run before it, which was due at the same time, was stopped or lost.
  attempt_no       int not null check (attempt_no > 0),
  worker_id        text not null,
  started_at       timestamptz(6) not null default clock_timestamp(),
  lease_expires_at timestamptz(6),
  -- Of a lost run: when its lease ended.
  finished_at      timestamptz(6),
  outcome          recurring_outcome,
  error            text,
  constraint recurring_runs_end_is_whole check (
    (finished_at is null) = (outcome is null) and (finished_at is null) = (lease_expires_at is not null))
);
-- A function runs once at a time, in whichever process it was registered.
create unique index recurring_runs_running on recurring_runs (tenant_id, recurring_id) where finished_at is null;
create index recurring_runs_history on recurring_runs (tenant_id, recurring_id, started_at, id);
create index recurring_runs_finished on recurring_runs (tenant_id, finished_at) where finished_at is not null;

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

-- How much of a job's cost is metered: a job's row only has the sum of its attempts. Only for jobs that cost something.
create table usage_costs (
  job_id uuid primary key references jobs (id) on delete cascade,
  cents  int not null
);

-- How many jobs each tenant has: counted now and then, and kept up to date from the audit log, at no cost to those who enqueue,
-- claim and finish. What is neither succeeded, failed nor canceled is active; dead letters are failed too.
create table job_counts (
  tenant_id    uuid primary key,
  jobs         bigint not null,
  succeeded    bigint not null,
  failed       bigint not null,
  canceled     bigint not null,
  dead_letters bigint not null
) with (fillfactor = 50);

-- What happened to the jobs of all tenants since the installation began, by type. Callers may invent types: those beyond the
-- first 200 share the row (other). Times are counted by the buckets of `duration_bounds`, and the one above them.
create table job_totals (
  job_type      text primary key,
  enqueued      bigint not null,
  succeeded     bigint not null,
  failed        bigint not null,
  dead_lettered bigint not null,
  retried       bigint not null,
  canceled      bigint not null,
  waits         bigint[] not null,
  wait_seconds  float8 not null,
  runs          bigint[] not null,
  run_seconds   float8 not null
) with (fillfactor = 50);

-- What happened to jobs by the minute, the hour and the day, in UTC. The tenant 00000000-0000-0000-0000-000000000000 is all of them together. Times
-- are counted by the buckets of `duration_bounds`, and the one above them, so that steps and types can be added up; empty: none.
create table job_series (
  tenant_id     uuid not null,
  step          series_step not null,
  begins_at     timestamptz(6) not null,
  job_type      text not null,
  enqueued      bigint not null,
  succeeded     bigint not null,
  failed        bigint not null,
  dead_lettered bigint not null,
  retried       bigint not null,
  canceled      bigint not null,
  -- Attempts that ended, those of them that took too long or lost their worker, and what they took.
  attempts      bigint not null,
  timed_out     bigint not null,
  lost          bigint not null,
  run_seconds   float8 not null,
  cost_cents    bigint not null,
  waits         bigint[] not null,
  runs          bigint[] not null,
  primary key (tenant_id, step, begins_at, job_type)
) with (fillfactor = 70);
-- For retention.
create index job_series_begins_at on job_series (step, begins_at);
