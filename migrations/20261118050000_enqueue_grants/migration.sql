-- What the logins of other applications may enqueue: job types of tenants. `atlas.enqueue` reads it for every login that is not
-- Atlas's own. A type may end with *, for all types that begin so. Logins belong to the server, so a grant does not move with its tenant.
create table enqueue_grants (
  id         uuid primary key default gen_random_uuid(),
  login      text not null check (login <> ''),
  tenant_id  uuid not null,
  job_type   text not null check (job_type <> ''),
  created_by text not null,
  created_at timestamptz(6) not null default clock_timestamp(),
  unique (login, tenant_id, job_type)
);
create index enqueue_grants_tenant_id_idx on enqueue_grants (tenant_id);
