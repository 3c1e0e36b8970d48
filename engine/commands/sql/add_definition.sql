-- nothing -> a definition, and the job type of its jobs, both or neither.
-- No row: the key is taken, by a definition or by a type that some worker handles.
with made as (
  insert into atlas.job_definitions (id, key, description, argv, programs, arg_schema, timeout_seconds, max_retries, retry_policy,
    concurrency, limits, env, is_active)
  select :id, :key, :description, :argv::text::jsonb, :programs::text::jsonb, :arg_schema::text::jsonb, :timeout_seconds,
    :max_retries, :retry_policy::text::jsonb, :concurrency, :limits::text::jsonb, :env::text::jsonb, :is_active
  where not exists (select from atlas.job_types t where t.key = :key)
  on conflict (key) do nothing
  returning *
),
typed as (
  insert into atlas.job_types (key, description, input_schema, max_retries, timeout_seconds, retry_policy, concurrency)
  select key, description, arg_schema, max_retries, timeout_seconds, retry_policy, concurrency
  from made
)
select id, key, description, argv, programs, arg_schema, timeout_seconds, max_retries, retry_policy, concurrency, limits, env,
  is_active, created_at, updated_at
from made;
