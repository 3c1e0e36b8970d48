-- nothing -> published, for the job types of a worker that no one has published. Returns their keys; their events are written in the same
-- transaction. A type that another worker publishes at the same time is waited for, and is not among them.
-- Called by engine/jobs/handlers/type_catalog.py. SQL, because it inserts many rows under a condition, on the database's clock.
insert into atlas.job_types (key, description, input_schema, max_retries, timeout_seconds, retry_policy, concurrency, concurrency_key,
  rate, burst, audit_content, last_seen_at)
select g.*, clock_timestamp()
from jsonb_to_recordset(:types::text::jsonb) as g(key text, description text, input_schema jsonb, max_retries integer,
  timeout_seconds integer, retry_policy jsonb, concurrency integer, concurrency_key text, rate text, burst integer, audit_content boolean)
where not exists (select from atlas.job_definitions d where d.key = g.key)
order by g.key
on conflict (key) do nothing
returning key;
