-- All definitions by key. They belong to the installation, not to a tenant. Called by engine/commands/active_definitions.py. SQL, because workers
-- read it, and do not import the generated client.
select id, key, description, argv, programs, arg_schema, timeout_seconds, max_retries, retry_policy, concurrency, concurrency_key, rate, burst, limits, env,
  is_active, created_at, updated_at
from atlas.job_definitions
order by key;
