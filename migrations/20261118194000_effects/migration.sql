-- Effects outside of this database: one row for each call of a provider that must not be repeated blindly, written before the call. The states
-- are in engine/effects/outcomes.py.
create table effects (
  id               uuid primary key,
  tenant_id        uuid not null,
  job_id           uuid not null references jobs (id) on delete cascade,
  job_type         text not null,
  -- The path of the step in a run; empty for a job.
  step             text not null default '',
  -- `stripe.charge`: the part before the first dot is the provider.
  name             text not null check (name <> ''),
  -- The idempotency key that the provider gets, the same in every attempt.
  key              text not null check (key <> ''),
  state            text not null default 'intended' check (state in ('intended', 'done', 'unknown', 'refused')),
  -- The attempt that called last: the fence of what it records.
  attempt_no       int not null,
  -- The provider's name for what was made.
  reference        text,
  -- What other attempts were told: more than one reference is a double.
  other_references text[] not null default '{}',
  detail           jsonb not null default '{}',
  created_at       timestamptz(6) not null default clock_timestamp(),
  -- When the last call began.
  intended_at      timestamptz(6) not null default clock_timestamp(),
  ended_at         timestamptz(6),
  settled_by       text,
  settled_at       timestamptz(6),
  constraint effects_once unique (job_id, step, name, key)
);
create index effects_tenant on effects (tenant_id, id);
create index effects_provider on effects (split_part(name, '.', 1), id);
-- What may be in doubt.
create index effects_open on effects (id) where state in ('intended', 'unknown');
