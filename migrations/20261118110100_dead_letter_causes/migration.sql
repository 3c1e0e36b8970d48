-- The dead letters that are counted in dead_letter_causes, each under its cause. The meter keeps both.
create table dead_letters (
  job_id           uuid primary key,
  tenant_id        uuid not null,
  cause            uuid not null,
  is_unknown       boolean not null,
  dead_lettered_at timestamptz(6) not null
);

-- How many dead letters of a tenant have the same cause: a job type, a type of error, and the pattern of its message. The rows of the tenant
-- ffffffff-ffff-ffff-ffff-ffffffffffff are those of all tenants together.
create table dead_letter_causes (
  cause            uuid not null,
  tenant_id        uuid not null,
  job_type         text not null,
  error_type       text,
  error_pattern    text,
  -- The message of the newest.
  message          text,
  count            int not null,
  unknown_outcomes int not null,
  first_at         timestamptz(6) not null,
  last_at          timestamptz(6) not null,
  sample_id        uuid not null,
  primary key (cause, tenant_id)
) with (fillfactor = 50);
create index dead_letter_causes_last_at on dead_letter_causes (tenant_id, last_at);
