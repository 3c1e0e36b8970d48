-- How long the oldest due job of one tenant has waited, in seconds. Its queue is walked in the order of ids, at most so far.
-- Jobs whose time has come wait since then; others since they were made. SQL, because it is an age by the database's clock, in
-- a bounded read.
select extract(epoch from clock_timestamp() - min(w.since))::float8
from (
  select coalesce(next_retry_at, due_at, created_at) as since from only atlas.jobs
  where status = 'queued' and tenant_id = :tenant_id::uuid
  order by id limit :most::int) w
where w.since <= clock_timestamp();
