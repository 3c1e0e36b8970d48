-- Sessions of people, and responses kept for repeated requests.

-- A person's sign-in: an opaque cookie, good for as long as the token it was exchanged for is.
create table sessions (
  id           uuid primary key default gen_random_uuid(),
  token_id     uuid not null references api_tokens (id) on delete cascade,
  hash         bytea not null unique check (octet_length(hash) = 32),
  created_at   timestamptz(6) not null default clock_timestamp(),
  last_seen_at timestamptz(6) not null default clock_timestamp(),
  expires_at   timestamptz(6) not null,
  ended_at     timestamptz(6)
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
