-- Job types that are published as this worker's decorators say: they were seen now. Returns their keys. A type without an event that says
-- what was published is none of them. Locks the types of this worker, in the order of their keys: workers start together.
-- Called by engine/jobs/handlers/type_catalog.py. SQL, because it compares many rows at once, on the database's clock.
with given as (
  select *
  from jsonb_to_recordset(:types::text::jsonb) as g(key text, description text, input_schema jsonb, max_retries integer,
    timeout_seconds integer, retry_policy jsonb, concurrency integer, concurrency_key text, rate text, burst integer, audit_content boolean)
),
locked as (
  select t.key from atlas.job_types t where t.key in (select g.key from given g) order by t.key for update
)
update atlas.job_types as t
set last_seen_at = clock_timestamp()
from given g
where t.key = g.key
  and t.key in (select l.key from locked l)
  and (t.description, t.input_schema, t.max_retries, t.timeout_seconds, t.retry_policy, t.concurrency, t.concurrency_key, t.rate, t.burst,
       t.audit_content)
      is not distinct from
      (g.description, g.input_schema, g.max_retries, g.timeout_seconds, g.retry_policy, g.concurrency, g.concurrency_key, g.rate, g.burst,
       g.audit_content)
  and not exists (select from atlas.job_definitions d where d.key = t.key)
  and exists (select from atlas.audit_log a where a.entity_id = t.key and a.entity_type = 'job_type')
returning t.key;
