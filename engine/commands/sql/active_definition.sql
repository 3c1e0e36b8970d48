-- An active definition as it is now, with the short name of the tenant that an attempt runs for. Called by
-- engine/commands/active_definitions.py for every attempt of a command. SQL, because it is on the way of a job.
select d.id, d.key, d.description, d.argv, d.programs, d.arg_schema, d.timeout_seconds, d.max_retries, d.retry_policy,
  d.concurrency, d.concurrency_key, d.rate, d.burst, d.limits, d.env, d.is_active, d.created_at, d.updated_at, t.slug as tenant_slug
from atlas.job_definitions d
join atlas.tenants t on t.id = :tenant_id
where d.key = :key
  and d.is_active;
