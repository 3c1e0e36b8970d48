-- Command jobs from an allow-list, secret inputs kept apart, and hosts that pull their own work.

-- A definition allows one program to be run. Its key is the job type of its jobs, so that the claim's indexes and
-- limits serve them unchanged; whoever writes a definition writes its row of job_types in the same statement.
create table job_definitions (
  id              uuid primary key default gen_random_uuid(),
  key             text not null unique check (key ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
  description     text not null default '',
  argv            jsonb not null,
  arg_schema      jsonb not null default '{}',
  timeout_seconds int not null default 3600 check (timeout_seconds > 0),
  max_retries     int not null default 2 check (max_retries between 0 and 1000),
  retry_policy    jsonb not null default '{}',
  concurrency     int check (concurrency > 0),
  limits          jsonb not null default '{}',
  env             jsonb not null default '{}',
  is_active       boolean not null default true,
  created_at      timestamptz(6) not null default clock_timestamp(),
  updated_at      timestamptz(6) not null default clock_timestamp(),
  constraint job_definitions_argv_is_a_list check (jsonb_typeof(argv) = 'array' and jsonb_array_length(argv) > 0)
);

-- Workers learn at once that the allow-list changed; those who miss it look every few seconds.
create function atlas_definitions_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('atlas_definitions', '');
  return null;
end $$;
create trigger job_definitions_changed after insert or update or delete on job_definitions
  for each statement execute function atlas_definitions_changed();

-- The secret fields of a job's input, encrypted under a key that is not in the database. They go with the job.
create table job_secrets (
  job_id     uuid not null references jobs (id) on delete cascade,
  field      text not null,
  tenant_id  uuid not null,
  key_id     text not null,
  nonce      bytea not null check (octet_length(nonce) = 12),
  ciphertext bytea not null,
  created_at timestamptz(6) not null default clock_timestamp(),
  primary key (job_id, field)
);

-- A machine that fetches its own jobs, one at a time.
create table hosts (
  id           uuid primary key default gen_random_uuid(),
  tenant_id    uuid not null references tenants (id) on delete restrict,
  name         text not null check (name <> ''),
  is_active    boolean not null default true,
  last_seen_at timestamptz(6),
  created_at   timestamptz(6) not null default clock_timestamp(),
  updated_at   timestamptz(6) not null default clock_timestamp(),
  unique (tenant_id, name)
);

-- A server that a host looks after.
create table server_instances (
  id         uuid primary key default gen_random_uuid(),
  tenant_id  uuid not null references tenants (id) on delete restrict,
  host_id    uuid not null references hosts (id) on delete restrict,
  name       text not null check (name <> ''),
  created_at timestamptz(6) not null default clock_timestamp(),
  updated_at timestamptz(6) not null default clock_timestamp(),
  unique (tenant_id, name)
);
create index server_instances_host_id_idx on server_instances (host_id);

-- Ready, for the one host that may take it. Jobs without a host are not in it and pay nothing.
create index jobs_ready_host on jobs (host_id, priority desc, created_at)
  where status = 'queued' and next_retry_at is null and host_id is not null;

-- What hosts run; no worker ever publishes these.
insert into job_types (key, description, max_retries, timeout_seconds, retry_policy)
select key, description, 2, null, '{"name": "agent", "base": 2, "factor": 2, "cap": 3600, "jitter": 0.1}'
from (values ('SERVER_START', 'Start a server instance, by its host.'),
             ('SERVER_STOP', 'Stop a server instance, by its host.'),
             ('SERVER_RESTART', 'Restart a server instance, by its host.')) t(key, description);

-- The next job of a host: queued -> running under a lease of its own, claimed by host:<id>.
-- Rows: c claimed; x the gate is closed; r the host has a running job; b someone else is counting, ask again.
-- No row: nothing is due, or a limit holds it.
-- Its advisory lock (42713, hash of host) comes after the gate's and lets one claim of a host through at a time;
-- the careful lane's (42712, 0) is only tried, so that it may come after a row's.
create function atlas_host_next(p_host uuid, p_lease float8) returns table (
  kind "char", id uuid, tenant_id uuid, job_type text, input jsonb, attempt_count int, retry_count int, max_retries int,
  lost_count int, timeout_seconds int, definition_id uuid, parent_run_id uuid, correlation_id text, server_instance_id uuid
) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  claimant text := 'host:' || p_host;
  best record;
  cap int;
  most int;
  full_types text[] := '{}';
begin
  if not atlas_claim_open(null) then
    kind := 'x';
    return next;
    return;
  end if;
  if not pg_try_advisory_xact_lock(42713, hashtext(p_host::text)) then
    kind := 'b';
    return next;
    return;
  end if;
  -- What this host fell silent on goes back first: its return need not wait for the watchdog.
  perform atlas_reclaim(array(
    select j.id from jobs j
    where j.claimed_by = claimant and j.status = 'running' and j.lease_expires_at < clock_timestamp()
    order by j.id for update skip locked));
  if exists (select from jobs j where j.claimed_by = claimant and j.status = 'running') then
    kind := 'r';
    return next;
    return;
  end if;
  perform atlas_promote(200);
  -- The best job whose type has room. Each round sets one full type aside.
  loop
    select j.ctid as at, j.job_type, j.tenant_id into best
    from jobs j
    join hosts h on h.id = j.host_id and h.tenant_id = j.tenant_id and h.is_active
    where j.status = 'queued' and j.next_retry_at is null and j.host_id = p_host and j.job_type <> all (full_types)
    order by j.priority desc, j.created_at limit 1
    for update of j skip locked;
    exit when not found;
    cap := (select (t.limits->>'in_flight')::int from tenants t where t.id = best.tenant_id);
    most := (select y.concurrency from job_types y where y.key = best.job_type);
    if cap is not null or most is not null then
      if not pg_try_advisory_xact_lock(42712, 0) then
        kind := 'b';
        return next;
        return;
      end if;
      if (select count(*) from jobs r where r.status = 'running' and r.tenant_id = best.tenant_id) >= cap then
        return;
      end if;
      if (select count(*) from jobs r where r.status = 'running' and r.job_type = best.job_type) >= most then
        full_types := full_types || best.job_type;
        continue;
      end if;
    end if;
    return query
    update jobs
    set status = 'running', started_at = clock_timestamp(), updated_at = clock_timestamp(), claimed_by = claimant,
        attempt_count = attempt_count + 1, lease_expires_at = clock_timestamp() + p_lease * interval '1 second'
    where ctid = best.at and status = 'queued'
    returning 'c'::"char", id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count,
      timeout_seconds, definition_id, parent_run_id, correlation_id, server_instance_id;
    return;
  end loop;
end $$;

do $$
begin
  if exists (select from pg_roles where rolname = 'atlas_engine') then
    grant select, insert, update, delete on job_definitions, job_secrets, hosts, server_instances to atlas_engine;
  end if;
end $$;
