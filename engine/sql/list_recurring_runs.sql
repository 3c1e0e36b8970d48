-- The runs of a recurring function, newest first, or those before one. SQL, because a page goes on after two columns, which
-- Prisma cannot compare as one.
select id, tenant_id, recurring_id, due_at, attempt_no, worker_id, started_at, finished_at,
  case when finished_at is not null
    then greatest(0, least(2147483647, extract(epoch from finished_at - started_at) * 1000)) end::int as duration_ms,
  outcome::text as outcome, error
from atlas.recurring_runs
where tenant_id = :tenant_id
  and recurring_id = :recurring_id
  and (:started_at::timestamptz is null or (started_at, id) < (:started_at, :id::uuid))
order by started_at desc, id desc
limit :limit;
