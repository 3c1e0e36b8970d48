-- Jobs and their attempts, job types, workers.

create type job_status as enum ('queued', 'running', 'succeeded', 'failed', 'canceled');
create type attempt_status as enum ('running', 'succeeded', 'failed', 'timeout', 'canceled', 'lost');
create type job_source as enum ('manual', 'event', 'schedule', 'workflow', 'system');

-- What a row of `claim`, `finish` or `turn` says.
create type turn_kind as enum (
  'claimed',           -- the columns after it are the job
  'lease_lost',        -- the outcome of this job was refused: its lease is lost
  'cancel_requested',  -- the outcome was refused: the job was asked to stop, so it is not requeued
  'closed',            -- the gate is closed, or this worker is not alive
  'busy',              -- another claim is counting limits: ask again
  'more',              -- jobs were moved to where limits are counted: ask again
  'shared',            -- tenants compete: report what theirs use; tenant_id: where the next claim goes on among them, or null
  'not_charged',       -- what this tenant has used is still to be reported: another worker was reporting for it
  'paused',            -- pauses hold some jobs back; attempt_count: their version
  'alone_waits',       -- a job that must run alone waits: ask for it when nothing else is held
  'token_waits'        -- jobs over a rate wait: ask again after attempt_count milliseconds
);
create type turn_row as (
  kind               turn_kind,
  id                 uuid,
  tenant_id          uuid,
  job_type           text,
  input              jsonb,
  attempt_count      int,
  retry_count        int,
  -- Null: the job chose none, and those of its handler count.
  max_retries        int,
  lost_count         int,
  timeout_seconds    int,
  definition_id      uuid,
  parent_run_id      uuid,
  correlation_id     text,
  server_instance_id uuid,
  -- The job was lost so often that it runs alone in its process.
  alone              boolean,
  -- Seconds from the claim; null for a job without deadlines. It is not begun later, and its attempt ends by then.
  start_within       float8,
  finish_within      float8
);

-- No foreign key to tenants: the enqueue statement checks the tenant, and a key check per job would
-- lock the tenant's row from every writer.
create table jobs (
  id                  uuid not null default gen_random_uuid(),
  tenant_id           uuid not null,
  status              job_status not null default 'queued',
  priority            int not null default 0,
  created_at          timestamptz(6) not null default clock_timestamp(),
  updated_at          timestamptz(6) not null default clock_timestamp(),
  cost_cents          int not null default 0,
  retry_count         int not null default 0,
  max_retries         int not null default 3,
  attempt_count       int not null default 0,
  lost_count          int not null default 0,
  source              job_source not null default 'manual',
  careful             boolean not null default false,
  -- Whether max_retries is the job's own. False: it is its type's, and who claims the job takes the type's number of that time.
  retries_chosen      boolean not null default true,
  job_type            text not null,
  input               jsonb not null default '{}',
  output              jsonb not null default '{}',
  error               jsonb not null default '{}',
  definition_id       uuid,
  next_retry_at       timestamptz(6),
  -- When its last wait ended: next_retry_at, which is null while a job is ready, or the time at which it was woken or retried.
  due_at              timestamptz(6),
  started_at          timestamptz(6),
  finished_at         timestamptz(6),
  lease_expires_at    timestamptz(6),
  claimed_by          text,
  dead_lettered_at    timestamptz(6),
  cancel_requested_at timestamptz(6),
  cancel_requested_by text,
  dedupe_key          text,
  dedupe_hash         bytea,
  correlation_id      text,
  source_ref          text,
  created_by          text,
  timeout_seconds     int,
  host_id             uuid,
  server_instance_id  uuid,
  parent_run_id       uuid,
  progress            jsonb,
  -- The latest time at which its next attempt may start; a job that is queued then ends as expired. After its first attempt: finish_by.
  start_by            timestamptz(6),
  finish_by           timestamptz(6),
  group_id            uuid,
  -- Null for the jobs of types without a rate or a concurrency key: the limit of its type and key, and what the key is.
  limit_id            uuid,
  limit_key           text,
  -- Its tenant, where the tenant has a rate.
  rate_id             uuid,
  -- Which of the two it waits for. It is due without an end then, or at its time; see the function release_limit.
  held_by             uuid,
  -- Whether it counts against the concurrency of its key: from its release until it has ended, retries included.
  has_slot            boolean,
  -- Half-full leaves: every change of status adds an entry beside the old one, on the same page.
  constraint jobs_pkey primary key (id) with (fillfactor = 50),
  -- A running job without a worker would never be requeued. Postgres reads a check anew for every statement: what admission checks, and
  -- what a wrong value could not harm, is not among them. `audit verify --state` compares the times of a job with its status.
  constraint jobs_running_has_a_worker check (status <> 'running' or claimed_by is not null)
) with (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 10000,
  autovacuum_analyze_scale_factor = 0.2,
  autovacuum_analyze_threshold = 50000,
  autovacuum_vacuum_cost_delay = 1
);
-- Every change of status writes every index that holds the row, so all but the key are partial.
-- Ready: claims walk it by type and tenant.
create index jobs_ready_by_tenant on jobs (job_type, tenant_id, priority desc, created_at)
  where status = 'queued' and next_retry_at is null and host_id is null and not careful;
-- Ready, but taken one by one after counting limits: jobs of limited types and tenants, and jobs lost before.
create index jobs_ready_careful on jobs (tenant_id, job_type, priority desc, created_at)
  where status = 'queued' and next_retry_at is null and host_id is null and careful;
create index jobs_due on jobs (next_retry_at) where status = 'queued' and next_retry_at is not null;
-- The tenant is in it so that a tenant's list passes over the running jobs of others without reading their rows.
create index jobs_running on jobs (claimed_by, tenant_id) where status = 'running';
create index jobs_own_lease on jobs (lease_expires_at) where lease_expires_at is not null;
create unique index jobs_dedupe on jobs (tenant_id, dedupe_hash)
  where dedupe_hash is not null and status in ('queued', 'running');
create index jobs_tenant_queued on jobs (tenant_id, id) where status = 'queued';
create index jobs_tenant_ended on jobs (tenant_id, id) where status in ('succeeded', 'failed', 'canceled');
-- The lists of what is due later (delayed jobs, retries and suspended runs), of what failed or was canceled, and of dead letters.
-- One index, since each costs every statement that writes jobs; what is ready, runs or succeeded is not in it. The function is_listed
-- says the same: a list that calls it can use this index alone, behind row-level security too.
create index jobs_tenant_listed on jobs (
  (case when next_retry_at is not null then 'waiting' when dead_lettered_at is not null then 'dead_letter' else 'failed' end), tenant_id, id)
  where case when next_retry_at is null then status in ('failed', 'canceled') else true end;
-- What failed or was canceled in the order of its end, for the latest failures.
create index jobs_tenant_failed_end on jobs (tenant_id, finished_at, id) where status in ('failed', 'canceled');
-- What belongs to one request, wherever it is in a long history. Jobs without a correlation id are not in it and pay nothing.
create index jobs_correlation on jobs (correlation_id, tenant_id, id) where correlation_id is not null;

-- Runs find the children they wait for, or must stop.
create index jobs_children on jobs (parent_run_id) where parent_run_id is not null;
-- What expires next. Jobs without a deadline are not in it and pay nothing.
create index jobs_expiring on jobs (start_by) where status = 'queued' and start_by is not null;
-- The members of a group by status. Jobs without a group are not in it and pay nothing.
create index jobs_group on jobs (group_id, status) where group_id is not null;
-- Ready, for the one host that may take it. Jobs without a host are not in it and pay nothing.
create index jobs_ready_host on jobs (host_id, priority desc, created_at)
  where status = 'queued' and next_retry_at is null and host_id is not null;

-- Held by a limit and otherwise due, in the order of release. Jobs without limits are in none of these three and pay nothing.
create index jobs_held on jobs (held_by, priority desc, created_at)
  where held_by is not null and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00';
-- Released by the limit of their type and key: those that have not started use up tokens, those with a slot count until they end.
create index jobs_released on jobs (limit_id, status)
  where limit_id is not null and status in ('queued', 'running') and (has_slot or held_by is distinct from limit_id);
-- The same for the rate of a tenant.
create index jobs_rate_released on jobs (rate_id) where rate_id is not null and status = 'queued' and held_by is null;

-- The hot statements have fixed plans, and lists go by indexes: a small sample of what is filtered by is enough, and what no
-- plan asks for is not sampled at all. Comparing inputs took a tenth of a busy server's time.
do $$
declare
  col record;
begin
  for col in
    select attname from pg_attribute where attrelid = 'jobs'::regclass and attnum > 0 and not attisdropped
  loop
    execute format('alter table jobs alter column %I set statistics %s', col.attname,
      case when col.attname in ('id', 'tenant_id', 'status', 'job_type', 'priority', 'created_at', 'next_retry_at', 'finished_at',
                                'host_id', 'parent_run_id', 'correlation_id', 'source', 'dead_lettered_at')
           -- A claim by type needs the index of types: a sample that holds one type alone would let the planner take another.
           then case col.attname when 'job_type' then 50 else 20 end else 0 end);
  end loop;
end $$;

create table job_attempts (
  job_id      uuid not null references jobs (id) on delete cascade,
  attempt_no  int not null,
  worker_id   text not null,
  host_id     uuid,
  pid         int,
  status      attempt_status not null,
  -- The due_at of its job at that time.
  due_at      timestamptz(6),
  started_at  timestamptz(6) not null,
  finished_at timestamptz(6),
  duration_ms int,
  exit_code   int,
  stdout_tail text,
  stderr_tail text,
  -- What its handler logged.
  log_tail    text,
  error_text  text,
  outcome     text check (outcome in ('unknown', 'snoozed', 'released')),
  result      jsonb not null default '{}',
  log_ref     text,
  primary key (job_id, attempt_no)
);
create index job_attempts_job_id_started_at_idx on job_attempts (job_id, started_at desc);

-- Every attempt of every job alike. An attempt that runs or simply succeeded is read from the job row itself.
create view job_runs with (security_invoker = true) as
select a.job_id || ':' || a.attempt_no as job_run_id, a.job_id, a.attempt_no, j.tenant_id, j.job_type, a.worker_id, a.host_id,
  a.pid, a.status, a.started_at, a.finished_at, a.duration_ms, a.exit_code, a.stdout_tail, a.stderr_tail,
  a.log_tail, a.error_text, a.outcome,
  -- Its row has a result only where that is not the job's output.
  case when a.status = 'succeeded' and a.result = '{}' and a.attempt_no = j.attempt_count then j.output else a.result end, a.log_ref
from job_attempts a
join jobs j on j.id = a.job_id
union all
select j.id || ':' || j.attempt_count, j.id, j.attempt_count, j.tenant_id, j.job_type, j.claimed_by, j.host_id,
  null, (case when j.status = 'running' then 'running' else 'succeeded' end)::attempt_status, j.started_at, j.finished_at,
  case when j.finished_at is not null then least(2147483647, extract(epoch from j.finished_at - j.started_at) * 1000) end::int,
  null, null, null,
  null, null, null, case when j.status = 'running' then '{}' else j.output end, null
from jobs j
where j.status in ('running', 'succeeded')
  and j.attempt_count > 0
  and not exists (select from job_attempts a where a.job_id = j.id and a.attempt_no = j.attempt_count);

create table job_types (
  key             text primary key,
  description     text not null default '',
  input_schema    jsonb not null default '{}',
  max_retries     int not null default 3 check (max_retries between 0 and 1000),
  timeout_seconds int,
  retry_policy    jsonb not null default '{}',
  -- At the same time: of all its jobs, or with a key of those whose key is filled in alike, for each tenant.
  concurrency     int check (concurrency > 0),
  concurrency_key text,
  -- Starts such as 100/minute, of all its jobs or of each key, and how many may start at once after a rest.
  rate            text,
  burst           int check (burst > 0),
  -- Whether events of its jobs carry digests of input and output.
  audit_content   boolean not null default false,
  created_at      timestamptz(6) not null default now(),
  last_seen_at    timestamptz(6) not null default now()
);
create index job_types_limited on job_types (key) where concurrency is not null and concurrency_key is null;
-- Types whose jobs are held until their limit has room.
create index job_types_held on job_types (key) where concurrency_key is not null or rate is not null;

-- The token bucket of a rate: of a type, of a key of it, or of a tenant, whose id it has then. Kept by the one that releases its jobs.
create table job_limits (
  id          uuid primary key,
  -- Null: the rate counts the jobs of all tenants.
  tenant_id   uuid,
  per_second  float8 not null,
  burst       int not null,
  tokens      float8 not null,
  refilled_at timestamptz(6) not null default clock_timestamp(),
  -- When the next token is there, while jobs wait for it.
  release_at  timestamptz(6)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
create index job_limits_due on job_limits (release_at) where release_at is not null;
-- What happened to the jobs of a limit since it was last looked at. The next claim takes them and releases what there is room for.
create table limit_events (
  limit_id  uuid not null,
  id        bigint generated always as identity,
  tenant_id uuid not null,
  -- A job started, which takes a token.
  started   boolean not null default false,
  primary key (limit_id, id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

-- Jobs as they are read: with the derived statuses, at the time of the statement that reads them, and with the retries that count,
-- as the function retries_of says.
create view shown_jobs with (security_invoker = true) as
select j.id, j.tenant_id, j.status,
  case when j.status = 'failed' and j.dead_lettered_at is not null then 'dead_letter'
       when j.status = 'queued' and j.next_retry_at > statement_timestamp() then 'waiting' else j.status::text end as shown_status,
  j.job_type, j.definition_id, j.priority, j.input, j.output, j.error, j.cost_cents, j.retry_count,
  case when j.retries_chosen then j.max_retries
       else coalesce((select y.max_retries from job_types y where y.key = j.job_type), j.max_retries) end as max_retries,
  j.next_retry_at, coalesce(j.next_retry_at, j.due_at) as scheduled_for, j.attempt_count, j.lost_count, j.created_at, j.updated_at,
  j.started_at, j.finished_at, j.lease_expires_at, j.claimed_by, j.dead_lettered_at, j.cancel_requested_at, j.cancel_requested_by,
  j.dedupe_key, j.correlation_id, j.source, j.source_ref, j.created_by, j.timeout_seconds, j.host_id, j.server_instance_id,
  j.parent_run_id, j.progress, j.start_by, j.finish_by, j.group_id
from jobs j;

-- The same as a table shows them: without inputs and outputs, and of an error its beginning.
create view listed_jobs with (security_invoker = true) as
select id, tenant_id, status, shown_status, job_type, definition_id, priority,
  jsonb_strip_nulls(jsonb_build_object(
    'message', left(error->>'message', 300), 'type', left(error->>'type', 200), 'outcome', error->'outcome')) as error,
  cost_cents, retry_count, max_retries, next_retry_at, scheduled_for, attempt_count, lost_count, created_at, updated_at, started_at,
  finished_at, lease_expires_at, claimed_by, dead_lettered_at, cancel_requested_at, cancel_requested_by, dedupe_key, correlation_id,
  source, source_ref, created_by, timeout_seconds, host_id, server_instance_id, parent_run_id, progress, start_by, finish_by, group_id
from shown_jobs;

-- What tenants have used of the workers they compete for. `used` is virtual time: worker seconds divided by the tenant's weight, so that
-- the tenant with the least is next. One that was idle begins a second behind the clock at most: what it did not use is not saved up.
create table tenant_shares (
  tenant_id      uuid primary key,
  used           float8 not null,
  -- Of one of its jobs, lately.
  mean_seconds   float8 not null default 0.001,
  -- Worker seconds as of charged_at, each weighing less the older it is: e times less after a minute.
  recent_seconds float8 not null default 0,
  charged_at     timestamptz(6) not null default clock_timestamp()
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
-- The virtual time of the tenant that was served last, of those that compete.
create table share_clock (
  only_row boolean primary key default true check (only_row),
  at       float8 not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
insert into share_clock default values;

create table job_workers (
  worker_id        text primary key,
  hostname         text not null,
  version          text not null,
  job_types        text[] not null,
  started_at       timestamptz(6) not null default clock_timestamp(),
  last_seen_at     timestamptz(6) not null default clock_timestamp(),
  lease_expires_at timestamptz(6) not null,
  dead_at          timestamptz(6),
  running_count    int not null default 0,
  -- the version of the closed gate under which it has confirmed to start nothing
  confirmed_gate   bigint not null default 0,
  -- the version of the pauses under which it has confirmed to start nothing that it claimed before them
  confirmed_pause  bigint not null default 0,
  -- since when it has been asked to take nothing new and to stop when it is idle, and by whom
  drain_requested_at timestamptz(6),
  drain_requested_by text,
  metadata         jsonb not null default '{}'
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 100);
create index job_workers_alive on job_workers (lease_expires_at) where dead_at is null;

-- What nothing of starts: a tenant, a job type, a definition, a workflow, a host or a trigger. Written under the gate's lock.
create table pauses (
  id        uuid primary key default gen_random_uuid(),
  -- gives runs that a pause holds back their mark: see parked_until
  number    bigint generated always as identity,
  kind      text not null check (kind in ('tenant', 'type', 'definition', 'workflow', 'host', 'trigger')),
  -- the key of a type, definition or workflow; the id of a tenant, host or trigger
  target    text not null check (target <> ''),
  -- whose it is; null for types and definitions, and for a workflow that is paused for every tenant
  tenant_id uuid,
  -- counts the pauses that were ever made: workers confirm it
  version   bigint not null,
  reason    text,
  paused_by text not null,
  paused_at timestamptz(6) not null default clock_timestamp(),
  -- when its reason or end was written last: workers that started later know of it
  written_at timestamptz(6) not null default clock_timestamp(),
  -- when it ends by itself
  until     timestamptz(6)
);
