-- All definitions, or the active ones. They belong to the installation, not to a tenant.
select id, key, description, argv, arg_schema, timeout_seconds, max_retries, retry_policy, concurrency, limits, env, is_active,
  created_at, updated_at
from atlas.job_definitions
where is_active or not :active_only::boolean
order by key;
