-- The ground floor: tenants, tokens, jobs and their attempts, workers, the system's state, the audit log.

-- Roles. atlas_owner owns, atlas_engine is what Atlas's programs act as, atlas_tenant what an API caller acts as.
-- A login that may not make roles goes on without them; `atlas doctor` then says what to run.
do $$
declare
  name text;
begin
  foreach name in array array['atlas_owner', 'atlas_engine', 'atlas_tenant'] loop
    begin
      execute format('create role %I nologin', name);
    exception
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then
        raise notice 'the role % could not be made; see atlas doctor', name;
    end;
    begin
      execute format('grant %I to current_user', name);
    exception
      when undefined_object or insufficient_privilege or unique_violation then null;
    end;
  end loop;
end $$;

create type job_status as enum ('queued', 'running', 'succeeded', 'failed', 'canceled');
create type attempt_status as enum ('running', 'succeeded', 'failed', 'timeout', 'canceled', 'lost');
create type job_source as enum ('manual', 'event', 'schedule', 'workflow', 'system');
create type actor_type as enum ('user', 'agent', 'system');
create type audit_level as enum ('info', 'warn', 'error');
create type api_role as enum ('operator', 'tenant_admin', 'enqueuer', 'auditor', 'host', 'worker');

create table tenants (
  id         uuid primary key default gen_random_uuid(),
  slug       text not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  name       text not null,
  timezone   text not null default 'UTC',
  limits     jsonb not null default '{}',
  retention  jsonb not null default '{}',
  created_at timestamptz(6) not null default now(),
  updated_at timestamptz(6) not null default now()
);

-- Work that belongs to no customer: Atlas's own jobs, and jobs enqueued without a tenant.
insert into tenants (id, slug, name) values ('00000000-0000-7000-8000-000000000001', 'system', 'System');

create table api_tokens (
  id           uuid primary key default gen_random_uuid(),
  prefix       text not null unique,
  hash         bytea not null check (octet_length(hash) = 32),
  subject      text not null check (subject <> ''),
  role         api_role not null,
  tenant_id    uuid references tenants (id) on delete restrict,
  scopes       jsonb not null default '{}',
  created_at   timestamptz(6) not null default now(),
  expires_at   timestamptz(6),
  last_used_at timestamptz(6),
  revoked_at   timestamptz(6),
  constraint only_operators_have_no_tenant check (tenant_id is not null or role in ('operator', 'auditor'))
);
create index api_tokens_tenant_id_idx on api_tokens (tenant_id);

-- No foreign key to tenants: the enqueue statement checks the tenant, and a key check per job would
-- lock the tenant's row from every writer.
create table jobs (
  id                  uuid not null default gen_random_uuid(),
  tenant_id           uuid not null,
  status              job_status not null default 'queued',
  job_type            text not null,
  definition_id       uuid,
  priority            int not null default 0,
  input               jsonb not null default '{}',
  output              jsonb not null default '{}',
  error               jsonb not null default '{}',
  cost_cents          int not null default 0,
  retry_count         int not null default 0,
  max_retries         int not null default 3,
  next_retry_at       timestamptz(6),
  attempt_count       int not null default 0,
  lost_count          int not null default 0,
  careful             boolean not null default false,
  created_at          timestamptz(6) not null default clock_timestamp(),
  updated_at          timestamptz(6) not null default clock_timestamp(),
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
  source              job_source not null default 'manual',
  source_ref          text,
  created_by          text,
  timeout_seconds     int,
  host_id             uuid,
  server_instance_id  uuid,
  parent_run_id       uuid,
  progress            jsonb,
  -- Half-full leaves: every change of status adds an entry beside the old one, on the same page.
  constraint jobs_pkey primary key (id) with (fillfactor = 50),
  constraint jobs_job_type_is_named check (job_type <> ''),
  constraint jobs_max_retries_is_sane check (max_retries between 0 and 1000),
  constraint jobs_running_has_a_worker check (status <> 'running' or claimed_by is not null),
  constraint jobs_ended_has_a_time check ((finished_at is not null) = (status in ('succeeded', 'failed', 'canceled'))),
  constraint jobs_dead_letter_is_failed check (dead_lettered_at is null or status = 'failed'),
  constraint jobs_dedupe_is_whole check ((dedupe_key is null) = (dedupe_hash is null))
) with (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 1
);

-- Every change of status writes every index that holds the row, so all but the key are partial.
-- Ready, for workers that serve every type in the queue.
create index jobs_ready on jobs (priority desc, created_at)
  where status = 'queued' and next_retry_at is null and host_id is null and not careful;
-- Ready, for workers that serve some types.
create index jobs_ready_by_type on jobs (job_type, priority desc, created_at)
  where status = 'queued' and next_retry_at is null and host_id is null and not careful;
-- Ready, but taken one by one after counting limits: jobs of limited types and tenants, and jobs lost before.
create index jobs_ready_careful on jobs (tenant_id, job_type, priority desc, created_at)
  where status = 'queued' and next_retry_at is null and host_id is null and careful;
create index jobs_due on jobs (next_retry_at) where status = 'queued' and next_retry_at is not null;
create index jobs_running on jobs (claimed_by) where status = 'running';
create index jobs_own_lease on jobs (lease_expires_at) where lease_expires_at is not null;
create unique index jobs_dedupe on jobs (tenant_id, dedupe_hash)
  where dedupe_hash is not null and status in ('queued', 'running');
create index jobs_tenant_queued on jobs (tenant_id, id) where status = 'queued';
create index jobs_tenant_ended on jobs (tenant_id, id) where status in ('succeeded', 'failed', 'canceled');
create index jobs_dead_letters on jobs (tenant_id, dead_lettered_at) where dead_lettered_at is not null;

create table job_attempts (
  job_id      uuid not null references jobs (id) on delete cascade,
  attempt_no  int not null,
  worker_id   text not null,
  host_id     uuid,
  pid         int,
  status      attempt_status not null,
  started_at  timestamptz(6) not null,
  finished_at timestamptz(6),
  duration_ms int,
  exit_code   int,
  stdout_tail text,
  stderr_tail text,
  error_text  text,
  outcome     text check (outcome in ('unknown', 'snoozed', 'released')),
  result      jsonb not null default '{}',
  log_ref     text,
  primary key (job_id, attempt_no)
);
create index job_attempts_job_id_started_at_idx on job_attempts (job_id, started_at desc);

-- Every attempt of every job alike. An attempt that runs or simply succeeded is told by the job row itself.
create view job_runs with (security_invoker = true) as
select a.job_id || ':' || a.attempt_no as job_run_id, a.job_id, a.attempt_no, j.tenant_id, j.job_type, a.worker_id, a.host_id,
  a.pid, a.status, a.started_at, a.finished_at, a.duration_ms, a.exit_code, a.stdout_tail, a.stderr_tail,
  a.error_text, a.outcome, a.result, a.log_ref
from job_attempts a
join jobs j on j.id = a.job_id
union all
select j.id || ':' || j.attempt_count, j.id, j.attempt_count, j.tenant_id, j.job_type, j.claimed_by, j.host_id,
  null, (case when j.status = 'running' then 'running' else 'succeeded' end)::attempt_status, j.started_at, j.finished_at,
  (extract(epoch from j.finished_at - j.started_at) * 1000)::int, null, null, null,
  null, null, case when j.status = 'running' then '{}' else j.output end, null
from jobs j
where j.status in ('running', 'succeeded')
  and j.attempt_count > 0
  and not exists (select from job_attempts a where a.job_id = j.id and a.attempt_no = j.attempt_count);

create table job_types (
  key             text primary key,
  description     text not null default '',
  input_schema    jsonb not null default '{}',
  max_retries     int not null default 3,
  timeout_seconds int,
  retry_policy    jsonb not null default '{}',
  concurrency     int check (concurrency > 0),
  created_at      timestamptz(6) not null default now(),
  last_seen_at    timestamptz(6) not null default now()
);
create index job_types_limited on job_types (key) where concurrency is not null;
create index tenants_limited on tenants (id) where limits ? 'in_flight';

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
  metadata         jsonb not null default '{}'
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 100);
create index job_workers_alive on job_workers (lease_expires_at) where dead_at is null;

create table system_state (
  key        text primary key,
  value      jsonb not null,
  updated_at timestamptz(6) not null default clock_timestamp(),
  updated_by text not null
);

-- The account. No unique index on id: the sealer proves the rows, and a key would be paid for by every job.
create table audit_log (
  id          bigint not null generated always as identity,
  epoch       int not null default 1,
  xid         xid8 not null default pg_current_xact_id(),
  created_at  timestamptz(6) not null default clock_timestamp(),
  tenant_id   uuid,
  actor_type  actor_type not null,
  actor_id    text not null,
  level       audit_level not null default 'info',
  action      text not null check (action <> ''),
  entity_type text not null,
  entity_id   text not null,
  message     text not null default '',
  meta        jsonb not null default '{}',
  body        bytea not null
) with (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 10000000);
create index audit_log_seal on audit_log (epoch, xid, id);
create index audit_log_tenant on audit_log (tenant_id, id);
create index audit_log_entity on audit_log (entity_id);
create index audit_log_id on audit_log using brin (id) with (pages_per_range = 16);

-- The bytes of an event, made from the very values that go into the search columns.
create function atlas_audit_body(
  tenant_id uuid, actor_type text, actor_id text, level text, action text, entity_type text, entity_id text, message text,
  meta jsonb
) returns bytea language sql immutable parallel safe as $$
  select convert_to(jsonb_build_object(
    'tenant_id', $1, 'actor_type', $2, 'actor_id', $3, 'level', $4, 'action', $5,
    'entity_type', $6, 'entity_id', $7, 'message', $8, 'meta', $9)::text, 'UTF8')
$$;

-- Append-only, for everyone: the triggers fire in replica mode too, so a superuser is refused as well.
create function atlas_audit_is_append_only() returns trigger language plpgsql as $$
begin
  raise exception 'audit_log is append-only: % is refused', lower(tg_op)
    using errcode = 'insufficient_privilege', hint = 'Add a new row that corrects the old one.';
end $$;
create trigger audit_log_append_only before update or delete on audit_log
  for each row execute function atlas_audit_is_append_only();
create trigger audit_log_no_truncate before truncate on audit_log
  for each statement execute function atlas_audit_is_append_only();
alter table audit_log enable always trigger audit_log_append_only;
alter table audit_log enable always trigger audit_log_no_truncate;

-- Grants. The programs may not choose an event's id, epoch, transaction or time.
do $$
begin
  if exists (select from pg_roles where rolname = 'atlas_engine') then
    grant usage on schema public to atlas_engine, atlas_tenant;
    grant select, insert, update, delete on
      tenants, api_tokens, jobs, job_attempts, job_types, job_workers, system_state to atlas_engine;
    grant select on job_runs to atlas_engine;
    grant select on audit_log to atlas_engine;
    grant insert (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
      on audit_log to atlas_engine;
  end if;
  if pg_has_role(current_user, 'atlas_owner', 'member') then
    grant create on schema public to atlas_owner;
    alter table audit_log owner to atlas_owner;
    alter function atlas_audit_is_append_only() owner to atlas_owner;
  end if;
exception
  when undefined_object or insufficient_privilege then
    raise notice 'the audit log stays with its maker; see atlas doctor';
end $$;
