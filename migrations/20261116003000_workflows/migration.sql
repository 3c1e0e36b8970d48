-- Workflows: events, declared documents, intents, runs and their steps, approvals, policy.
--
-- An intent, the run it becomes and the job row that carries the run have one id. A run has no status of its own: the job
-- row decides, and the view workflow_run_states reads it. Nothing here has a foreign key to jobs: a key check per step
-- would lock rows in the hot path, so a trigger on the deletion of jobs deletes their runs instead.

create type intent_status as enum (
  'draft', 'validating', 'queued', 'executed', 'failed', 'blocked', 'awaiting_human', 'rejected');
create type workflow_kind as enum ('code', 'declared');
create type step_kind as enum ('step', 'job', 'child', 'sleep', 'event', 'approval', 'value', 'failure', 'undo');
create type step_status as enum ('waiting', 'retrying', 'succeeded', 'failed');
create type approval_kind as enum ('intent', 'step');
create type approval_status as enum ('pending', 'approved', 'rejected', 'expired', 'canceled');
create type policy_effect as enum ('allow', 'review', 'block');

-- What happened. `seq` is the order in which events of one name are seen; an event with a run_id is a signal to that run alone.
create table events (
  id             uuid primary key default gen_random_uuid(),
  seq            bigint not null generated always as identity,
  tenant_id      uuid not null,
  name           text not null check (length(name) between 1 and 200),
  context        jsonb not null default '{}' check (jsonb_typeof(context) = 'object'),
  run_id         uuid,
  correlation_id text,
  created_by     text not null,
  created_at     timestamptz(6) not null default clock_timestamp(),
  -- When the triggers on events looked at it.
  handled_at     timestamptz(6)
);
create index events_by_name on events (tenant_id, name, seq);
create index events_unhandled on events (seq) where handled_at is null and run_id is null;

create index events_age on events (tenant_id, created_at);
-- The list of operators, across tenants.
create index events_newest on events (created_at);

create table workflows (
  id           uuid primary key default gen_random_uuid(),
  -- Null: every tenant's.
  tenant_id    uuid,
  key          text not null check (length(key) between 1 and 200),
  -- 0 for those in code: the code itself is their version.
  version      int not null,
  kind         workflow_kind not null,
  description  text not null default '',
  input_schema jsonb not null default '{}',
  document     jsonb,
  is_enabled   boolean not null default true,
  created_by   text not null,
  created_at   timestamptz(6) not null default clock_timestamp(),
  last_seen_at timestamptz(6) not null default clock_timestamp(),
  constraint workflows_declared_has_a_document check ((kind = 'declared') = (document is not null)),
  constraint workflows_key unique nulls not distinct (key, tenant_id, version)
);

create table intents (
  id             uuid primary key default gen_random_uuid(),
  tenant_id      uuid not null,
  workflow       text not null check (length(workflow) between 1 and 200),
  input          jsonb not null default '{}',
  -- Of the input's text as Postgres writes it: what an approval is bound to.
  input_hash     bytea not null,
  status         intent_status not null default 'draft',
  reason         text,
  -- The rule that decided and the figures it saw.
  decision       jsonb not null default '{}',
  spend_cents    int not null default 0 check (spend_cents >= 0),
  priority       int not null default 0,
  source         job_source not null default 'manual',
  source_ref     text,
  correlation_id text,
  requested_by   text not null check (requested_by <> ''),
  events_from    bigint not null,
  forked_from    uuid,
  forked_step    text,
  claimed_at     timestamptz(6),
  queued_at      timestamptz(6),
  created_at     timestamptz(6) not null default clock_timestamp(),
  updated_at     timestamptz(6) not null default clock_timestamp()
) with (fillfactor = 70);
create index intents_draft on intents (created_at) where status = 'draft';
create index intents_validating on intents (claimed_at) where status = 'validating';
create index intents_tenant on intents (tenant_id, id);
create index intents_accepted on intents (tenant_id, queued_at) where queued_at is not null;

create table workflow_runs (
  id            uuid primary key,
  tenant_id     uuid not null,
  workflow      text not null,
  version       int not null default 0,
  -- The declared document it keeps to its end; null for workflows in code.
  workflow_id   uuid,
  requested_by  text not null,
  parent_run_id uuid,
  forked_from   uuid,
  -- Events after this number may end its waits.
  events_from   bigint not null,
  created_at    timestamptz(6) not null default clock_timestamp()
);
create index workflow_runs_tenant on workflow_runs (tenant_id, id);

-- One row per step of a run: its place is its branch and its position in that branch.
create table workflow_steps (
  run_id       uuid not null,
  branch       text not null,
  position     int not null,
  tenant_id    uuid not null,
  name         text not null,
  kind         step_kind not null,
  status       step_status not null,
  attempts     int not null default 1,
  started_at   timestamptz(6) not null default clock_timestamp(),
  finished_at  timestamptz(6),
  -- When a wait ends by itself, or a retry is due.
  wake_at      timestamptz(6),
  child_id     uuid,
  approval_id  uuid,
  event_id     uuid,
  event_cursor bigint,
  event_name   text,
  event_match  jsonb,
  input        jsonb,
  -- As it was written: jsonb would order keys anew, and a replay would see another value than the first run.
  output       json,
  error        jsonb,
  primary key (run_id, branch, position)
) with (autovacuum_vacuum_insert_scale_factor = 0.1);
create index workflow_steps_events on workflow_steps (tenant_id, event_name) where status = 'waiting' and event_name is not null;

create table approvals (
  id           uuid primary key default gen_random_uuid(),
  tenant_id    uuid not null,
  -- The run that asks, or the intent under review: they have one id.
  run_id       uuid not null,
  kind         approval_kind not null,
  step         text,
  title        text not null,
  detail       jsonb not null default '{}',
  input_hash   bytea not null,
  requested_by text not null,
  status       approval_status not null default 'pending',
  expires_at   timestamptz(6) not null,
  decided_at   timestamptz(6),
  decided_by   text,
  comment      text,
  created_at   timestamptz(6) not null default clock_timestamp(),
  constraint approvals_decided_is_whole check ((decided_at is null) = (status = 'pending'))
);
create index approvals_pending on approvals (expires_at) where status = 'pending';
create index approvals_run on approvals (run_id);
create index approvals_tenant on approvals (tenant_id, id);

-- A rule applies when the workflow fits and everything it names is exceeded; the strictest that applies decides.
create table policy_rules (
  id                  uuid primary key default gen_random_uuid(),
  -- Null: for every tenant.
  tenant_id           uuid,
  label               text not null check (label <> ''),
  effect              policy_effect not null,
  -- Patterns with * and ?.
  workflow            text not null default '*',
  except_workflows    text[] not null,
  spend_above_cents   int check (spend_above_cents >= 0),
  spend_per_day_cents int check (spend_per_day_cents >= 0),
  runs_per_day        int check (runs_per_day >= 0),
  is_enabled          boolean not null default true,
  created_by          text not null,
  created_at          timestamptz(6) not null default clock_timestamp(),
  updated_at          timestamptz(6) not null default clock_timestamp(),
  constraint policy_rules_label unique nulls not distinct (label, tenant_id)
);

-- Runs as they stand, read from their job rows.
create view workflow_run_states with (security_invoker = true) as
select r.id, r.tenant_id, r.workflow, r.version, r.workflow_id, r.requested_by, r.parent_run_id, r.forked_from, r.created_at,
  case when j.status = 'queued' and j.next_retry_at > statement_timestamp() then 'waiting' else j.status::text end as status,
  j.input->'input' as input, j.output, j.error, j.attempt_count, j.claimed_by, j.correlation_id, j.source::text as source, j.source_ref,
  case when j.next_retry_at < '9999-01-01' then j.next_retry_at end as wakes_at, j.cancel_requested_at, j.finished_at
from workflow_runs r
join jobs j on j.id = r.id;
