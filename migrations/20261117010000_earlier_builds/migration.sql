-- The migrations before this one were edited until 2026-11-17 08:18 UTC. This brings databases that builds since 2026-11-16 20:16 UTC made to
-- the same tables, and changes no other database. atlas/db/upgradable.py has the checksums of those builds.

alter table tenants add column if not exists moving_at timestamptz(6), add column if not exists moving_to text;
create index if not exists tenants_moving on tenants (id) where moving_at is not null;

create table if not exists running_programs (
  id         uuid primary key,
  kind       text not null check (kind in ('scheduler', 'api')),
  version    text not null,
  hostname   text not null,
  started_at timestamptz(6) not null default clock_timestamp(),
  seen_at    timestamptz(6) not null default clock_timestamp()
);

alter table audit_log drop constraint if exists audit_log_action_check;
create table if not exists audit_moved (
  tenant_id uuid not null,
  part      int not null check (part > 0),
  piece     int not null check (piece > 0),
  lines     bytea not null,
  primary key (tenant_id, part, piece)
);

alter table jobs
  drop constraint if exists jobs_ended_has_a_time,
  drop constraint if exists jobs_dead_letter_is_failed,
  drop constraint if exists jobs_dedupe_is_whole;
drop index if exists jobs_tenant_waiting, jobs_tenant_failed, jobs_dead_letters;
create index if not exists jobs_tenant_listed on jobs (
  (case when next_retry_at is not null then 'waiting' when dead_lettered_at is not null then 'dead_letter' else 'failed' end), tenant_id, id)
  where case when next_retry_at is null then status in ('failed', 'canceled') else true end;
