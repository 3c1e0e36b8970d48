-- The steps of a run in the order in which they began, with what the waiting ones wait for.
select s.branch, s.position, s.name, s.kind::text, s.status::text, s.attempts, s.started_at, s.finished_at, s.wake_at, s.child_id,
  c.status::text as child_status, s.approval_id, s.event_name, s.event_match, s.input, s.output, s.error
from atlas.workflow_steps s
left join atlas.jobs c on c.id = s.child_id
where s.run_id = :run_id
order by s.started_at, s.branch, s.position;
