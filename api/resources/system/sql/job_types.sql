-- What can be enqueued: what workers published and the active commands, by key. Job types belong to the installation.
-- Called by api/resources/system/system.py. SQL, because a definition and its type are joined by a key that is no relation.
select y.key, y.description, y.input_schema, y.max_retries, y.timeout_seconds, y.retry_policy, y.concurrency, y.concurrency_key,
  y.rate, y.burst, y.last_seen_at,
  d.id is not null as is_command
from atlas.job_types y
left join atlas.job_definitions d on d.key = y.key
where (d.id is null or d.is_active)
  and (:after::text is null or y.key > :after)
order by y.key
limit :limit;
