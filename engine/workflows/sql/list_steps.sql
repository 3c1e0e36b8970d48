-- The steps of a run in the order in which they began, with what the waiting ones wait for; or a page of them after one, or the one
-- of a key. Not whole: without inputs and outputs, and of errors the beginning of the message.
-- SQL, because a page goes on after three columns, and only the status and type of a child are read from its job row.
with page as (
  select branch, position, name, kind, status, attempts, started_at, finished_at, wake_at, child_id, approval_id, event_name, event_match,
    case when :whole then input end as input, case when :whole then output end as output,
    case when :whole or error is null then error
      else jsonb_build_object('message', left(error->>'message', 300), 'type', left(error->>'type', 100)) end as error
  from atlas.workflow_steps
  where run_id = :run_id
    and (:started_at::timestamptz is null or (started_at, branch, position) > (:started_at, :branch::text, :position::int))
    and (:key::text is null or :key in (branch || name, case when branch = name || '/' then name end))
  order by started_at, branch, position
  limit :limit::bigint
)
select s.branch, s.position, s.name, s.kind::text, s.status::text, s.attempts, s.started_at, s.finished_at, s.wake_at, s.child_id,
  c.status::text as child_status, coalesce(r.workflow, c.job_type) as child_name, s.approval_id, a.status::text as approval_status,
  a.decided_by, s.event_name, s.event_match, s.input, s.output, s.error
from page s
left join atlas.jobs c on c.id = s.child_id
left join atlas.workflow_runs r on r.id = s.child_id
left join atlas.approvals a on a.id = s.approval_id
order by s.started_at, s.branch, s.position;
