-- a definition -> the same under new terms, and the job type of its jobs with it. The caller holds its row.
with changed as (
  update atlas.job_definitions
  set description     = :description,
      argv            = :argv::text::jsonb,
      programs        = :programs::text::jsonb,
      arg_schema      = :arg_schema::text::jsonb,
      timeout_seconds = :timeout_seconds,
      max_retries     = :max_retries,
      retry_policy    = :retry_policy::text::jsonb,
      concurrency     = :concurrency,
      limits          = :limits::text::jsonb,
      env             = :env::text::jsonb,
      is_active       = :is_active,
      updated_at      = clock_timestamp()
  where id = :id
    and key = :key
  returning *
),
typed as (
  insert into atlas.job_types as t (key, description, input_schema, max_retries, timeout_seconds, retry_policy, concurrency)
  select key, description, arg_schema, max_retries, timeout_seconds, retry_policy, concurrency
  from changed
  on conflict (key) do update
  set description     = excluded.description,
      input_schema    = excluded.input_schema,
      max_retries     = excluded.max_retries,
      timeout_seconds = excluded.timeout_seconds,
      retry_policy    = excluded.retry_policy,
      concurrency     = excluded.concurrency
)
select id, key, description, argv, programs, arg_schema, timeout_seconds, max_retries, retry_policy, concurrency, limits, env,
  is_active, created_at, updated_at
from changed;
