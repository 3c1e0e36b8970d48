-- Tenants, API tokens, the state of the installation.

-- Roles, named after the schema: atlas_owner owns the tables, atlas_engine is what Atlas's programs act as, atlas_tenant is what
-- a request of a tenant acts as. A login that may not create roles goes on without them; `atlas doctor` then says what to run.
do $$
declare
  name text;
begin
  foreach name in array array['owner', 'engine', 'tenant'] loop
    name := current_schema() || '_' || name;
    begin
      execute format('create role %I nologin', name);
    exception
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then
        raise notice 'the role % could not be created; see atlas doctor', name;
    end;
    begin
      execute format('grant %I to current_user', name);
    exception
      when undefined_object or insufficient_privilege or unique_violation then null;
    end;
  end loop;
end $$;

create type actor_type as enum ('user', 'agent', 'system');
create type audit_level as enum ('info', 'warn', 'error');
create type api_role as enum ('operator', 'tenant_admin', 'enqueuer', 'auditor', 'host', 'worker');

-- Classes of advisory locks; `lock_class` gives each its number.
create type lock_name as enum (
  'gate', 'worker', 'limits', 'seal', 'event', 'policy', 'metering', 'timezone', 'host', 'quota', 'webhooks', 'limit');

create table tenants (
  id          uuid primary key default gen_random_uuid(),
  slug        text not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  name        text not null,
  timezone    text not null default 'UTC',
  limits      jsonb not null default '{}',
  retention   jsonb not null default '{}',
  created_at  timestamptz(6) not null default now(),
  updated_at  timestamptz(6) not null default now(),
  -- Since when it is being removed: nothing can be added to it any more.
  removing_at timestamptz(6),
  -- Since when it is being moved to another installation: nothing of it changes here any more. And where to, if that was said.
  moving_at   timestamptz(6),
  moving_to   text
);

create index tenants_moving on tenants (id) where moving_at is not null;
create index tenants_limited on tenants (id) where limits ? 'in_flight';

-- Work that belongs to no customer: Atlas's own jobs, and jobs enqueued without a tenant.
insert into tenants (id, slug, name) values ('00000000-0000-7000-8000-000000000001', 'system', 'System');
-- Every enqueue looks here: the planner must know how small it is.
analyze tenants;

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
  -- The token that this one was created with; null where it was created on the machine itself. Who asked for work may not
  -- approve it with a token that goes back to theirs. No foreign key: tokens are revoked, and deleted with their tenant only.
  made_with    uuid,
  -- The subject that created it.
  created_by   text not null default 'system',
  constraint only_operators_have_no_tenant check (tenant_id is not null or role in ('operator', 'auditor'))
);
create index api_tokens_tenant_id_idx on api_tokens (tenant_id);

create table system_state (
  key        text primary key,
  value      jsonb not null,
  updated_at timestamptz(6) not null default clock_timestamp(),
  updated_by text not null
);

-- The schedulers and APIs that run. Each reports now and then; workers, which have leases, are in job_workers.
create table running_programs (
  id         uuid primary key,
  kind       text not null check (kind in ('scheduler', 'api')),
  version    text not null,
  hostname   text not null,
  started_at timestamptz(6) not null default clock_timestamp(),
  seen_at    timestamptz(6) not null default clock_timestamp()
);
