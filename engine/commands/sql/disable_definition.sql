-- a definition -> the same, not active. The caller holds its row. Nothing else of it is written or checked: what an earlier version
-- accepted, and this one would not, can be disabled too.
update atlas.job_definitions
set is_active  = false,
    updated_at = clock_timestamp()
where id = :id
returning id, key, description, argv, programs, arg_schema, timeout_seconds, max_retries, retry_policy, concurrency, limits, env,
  is_active, created_at, updated_at;
