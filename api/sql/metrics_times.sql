-- How long jobs waited and ran whose end was committed between two snapshots, of all tenants; at most so many.
-- A job that was retried waited for its policy, not for a worker, so its wait is left out.
select j.job_type, extract(epoch from j.finished_at - j.started_at)::float8 as run_seconds,
  case when j.attempt_count = 1 then extract(epoch from j.started_at - j.created_at)::float8 end as wait_seconds
from atlas.audit_window(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, '0', 0, null, null, null, :most::int) w
-- Within a case: the names of other things are no ids, and the planner may try the join first.
join atlas.jobs j on j.id = case when w.entity_type = 'job' then w.entity_id::uuid end
where w.action <> 'JOB_CREATED'
  and j.finished_at is not null
  and j.started_at is not null;
