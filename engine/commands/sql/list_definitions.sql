-- All definitions by key, or the active ones. They belong to the installation, not to a tenant.
select id, key, description, argv, programs, arg_schema, timeout_seconds, max_retries, retry_policy, concurrency, limits, env,
  is_active, created_at, updated_at
from atlas.job_definitions
where (is_active or not :active_only::boolean)
  and (:after::text is null or key > :after)
order by key
limit :limit::bigint;
