-- One definition. Definitions belong to the installation, not to a tenant.
select id, key, description, argv, programs, arg_schema, timeout_seconds, max_retries, retry_policy, concurrency, limits, env,
  is_active, created_at, updated_at
from atlas.job_definitions
where key = :key;
