-- Command jobs from an allow-list, secret inputs kept apart, and hosts that pull their own jobs.

-- A definition allows one program to be run. Its key is the job type of its jobs, so that the claim's indexes and
-- limits serve them unchanged; a transaction that writes a definition also writes its row of job_types.
create table job_definitions (
  id              uuid primary key default gen_random_uuid(),
  key             text not null unique check (key ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
  description     text not null default '',
  argv            jsonb not null,
  programs        jsonb not null default '{}',
  arg_schema      jsonb not null default '{}',
  timeout_seconds int not null default 3600 check (timeout_seconds > 0),
  max_retries     int not null default 2 check (max_retries between 0 and 1000),
  retry_policy    jsonb not null default '{}',
  concurrency     int check (concurrency > 0),
  concurrency_key text,
  rate            text,
  burst           int check (burst > 0),
  limits          jsonb not null default '{}',
  env             jsonb not null default '{}',
  is_active       boolean not null default true,
  created_at      timestamptz(6) not null default clock_timestamp(),
  updated_at      timestamptz(6) not null default clock_timestamp(),
  constraint job_definitions_argv_is_a_list check (jsonb_typeof(argv) = 'array' and jsonb_array_length(argv) > 0)
);

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
  -- What the program that fetched its jobs last calls itself.
  agent_version text,
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

-- What hosts run;
