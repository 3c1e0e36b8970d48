-- What a worker's decorator says about a job type; the last worker to start overwrites the others.
-- Returns whether it differs from what was published, or no event says what was. No row: the type is a command, and its definition has it.
-- Called by engine/jobs/handlers/type_catalog.py. SQL, because it inserts or updates under a condition, on the database's clock.
with before as (
  select to_jsonb(t) - 'last_seen_at' as published from atlas.job_types t where t.key = :key
)
insert into atlas.job_types as t (key, description, input_schema, max_retries, timeout_seconds, retry_policy, concurrency, concurrency_key,
  rate, burst, audit_content, last_seen_at)
values (:key, :description, :input_schema::text::jsonb, :max_retries, :timeout_seconds, :retry_policy::text::jsonb, :concurrency,
        :concurrency_key, :rate, :burst, :audit_content, clock_timestamp())
on conflict (key) do update
set description     = excluded.description,
    input_schema    = excluded.input_schema,
    max_retries     = excluded.max_retries,
    timeout_seconds = excluded.timeout_seconds,
    retry_policy    = excluded.retry_policy,
    concurrency     = excluded.concurrency,
    concurrency_key = excluded.concurrency_key,
    rate            = excluded.rate,
    burst           = excluded.burst,
    audit_content   = excluded.audit_content,
    last_seen_at    = clock_timestamp()
where not exists (select from atlas.job_definitions d where d.key = t.key)
returning (to_jsonb(t) - 'last_seen_at') is distinct from (select published from before)
  or not exists (select from atlas.audit_log a where a.entity_id = t.key and a.entity_type = 'job_type') as is_new;
