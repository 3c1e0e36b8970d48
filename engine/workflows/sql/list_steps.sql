-- The steps of a run in the order in which they began, with what the waiting ones wait for; or so many of them after one.
-- SQL, because a page goes on after three columns, and only the status of a child is read from its job row.
with page as (
  select branch, position, name, kind, status, attempts, started_at, finished_at, wake_at, child_id, approval_id, event_name, event_match,
    input, output, error
  from atlas.workflow_steps
  where run_id = :run_id
    and (:started_at::timestamptz is null or (started_at, branch, position) > (:started_at, :branch::text, :position::int))
  order by started_at, branch, position
  limit :limit::bigint
)
select s.branch, s.position, s.name, s.kind::text, s.status::text, s.attempts, s.started_at, s.finished_at, s.wake_at, s.child_id,
  c.status::text as child_status, s.approval_id, s.event_name, s.event_match, s.input, s.output, s.error
from page s
left join atlas.jobs c on c.id = s.child_id
order by s.started_at, s.branch, s.position;
