-- Sessions of people, responses kept for repeated requests, actions on many jobs, webhooks to and from others.

-- A person's sign-in: an opaque cookie, good for as long as the token it was exchanged for is. A link is one that is exchanged for
-- a session of its own, once.
create table sessions (
  id           uuid primary key default gen_random_uuid(),
  token_id     uuid not null references api_tokens (id) on delete cascade,
  hash         bytea not null unique check (octet_length(hash) = 32),
  created_at   timestamptz(6) not null default clock_timestamp(),
  last_seen_at timestamptz(6) not null default clock_timestamp(),
  expires_at   timestamptz(6) not null,
  ended_at     timestamptz(6),
  is_link      boolean not null default false
);
create index sessions_token_id_idx on sessions (token_id);
create index sessions_expires_at_idx on sessions (expires_at);

-- The first answer to a call that carries an Idempotency-Key, for those who call again. It commits with what the call did.
create table idempotency_keys (
  tenant_id    uuid not null,
  subject      text not null,
  key          text not null check (length(key) between 1 and 200),
  request_hash bytea not null check (octet_length(request_hash) = 32),
  status       int,
  body         bytea,
  created_at   timestamptz(6) not null default clock_timestamp(),
  primary key (tenant_id, subject, key)
);
create index idempotency_keys_created_at_idx on idempotency_keys (created_at);

-- The same done to many jobs, in steps: a record of how far it is, from which any process goes on. Without a tenant it is an
-- operator's, over all of them. `selection` has the ids, or the filter of a list. `list_cursor` is where it goes on in that list, and
-- `position` in the ids.
create table bulk_actions (
  id               uuid primary key,
  tenant_id        uuid,
  action           text not null check (action in ('retry', 'cancel', 'delete', 'discard')),
  status           text not null default 'running' check (status in ('running', 'done', 'canceled')),
  reason           text not null default '',
  selection        jsonb not null,
  -- How many jobs are named by their ids; null for a filter.
  total            int,
  rate_per_second  double precision check (rate_per_second > 0),
  position         int not null default 0,
  list_cursor      text,
  changed          int not null default 0,
  passed_over      int not null default 0,
  -- How often each thing became of a job.
  verdicts         jsonb not null default '{}',
  actor_type       actor_type not null,
  created_by       text not null,
  -- What is known of the request that began it.
  request          jsonb not null default '{}',
  canceled_by      text,
  next_step_at     timestamptz(6) not null default clock_timestamp(),
  created_at       timestamptz(6) not null default clock_timestamp(),
  updated_at       timestamptz(6) not null default clock_timestamp(),
  finished_at      timestamptz(6),
  constraint bulk_actions_ended_has_a_time check ((finished_at is null) = (status = 'running'))
);
create index bulk_actions_running on bulk_actions (next_step_at) where status = 'running';
create index bulk_actions_tenant on bulk_actions (tenant_id, id);

-- Jobs that were enqueued together. Their rows have its id and are counted where they are; this row is written when the group is made
-- and when it has ended, so that ending a job touches no row of its group.
create table job_groups (
  id           uuid primary key,
  tenant_id    uuid not null,
  name         text not null default '',
  -- How many jobs it was made of.
  total        int not null check (total >= 0),
  -- The job that follows when all have ended; null: none.
  then_job     jsonb,
  -- Whose it is.
  actor_type   actor_type not null,
  created_by   text not null,
  created_at   timestamptz(6) not null default clock_timestamp(),
  -- Its jobs by status, and the job that followed, as it ended.
  ended_at     timestamptz(6),
  ended_counts jsonb,
  then_job_id  uuid,
  constraint job_groups_ended_has_counts check ((ended_at is null) = (ended_counts is null))
);
create index job_groups_open on job_groups (id) where ended_at is null;
create index job_groups_tenant on job_groups (tenant_id, id);

-- A tenant's subscription to events. They are delivered by HTTP_CALL jobs, which name it and read its address and secret when they
-- run. The secret is encrypted, as those of jobs are.
create table webhooks (
  id              uuid primary key default gen_random_uuid(),
  tenant_id       uuid not null,
  url             text not null check (url <> ''),
  -- Names, all of a kind such as job.*, or * for all.
  events          text[] not null check (cardinality(events) > 0),
  description     text not null default '',
  is_enabled      boolean not null default true,
  -- Why Atlas disabled it; null where a person did, or while it is enabled.
  disabled_reason text,
  key_id          text not null,
  nonce           bytea not null check (octet_length(nonce) = 12),
  ciphertext      bytea not null,
  -- What happened before is not delivered.
  active_since    timestamptz(6) not null default clock_timestamp(),
  -- Since when no delivery has succeeded; null while they do.
  failing_since   timestamptz(6),
  last_error      text,
  created_by      text not null,
  created_at      timestamptz(6) not null default clock_timestamp(),
  updated_at      timestamptz(6) not null default clock_timestamp(),
  constraint webhooks_enabled_has_no_reason check (not is_enabled or disabled_reason is null)
) with (fillfactor = 70);
create index webhooks_tenant on webhooks (tenant_id, id);

-- An address that others post messages to; each becomes an event of this name.
create table inbound_hooks (
  id          uuid primary key default gen_random_uuid(),
  tenant_id   uuid not null,
  -- The part of the address that no one can guess.
  key         text not null unique check (length(key) >= 20),
  event_name  text not null check (event_name <> ''),
  description text not null default '',
  key_id      text not null,
  nonce       bytea not null check (octet_length(nonce) = 12),
  ciphertext  bytea not null,
  created_by  text not null,
  created_at  timestamptz(6) not null default clock_timestamp()
);
create index inbound_hooks_tenant on inbound_hooks (tenant_id, id);
