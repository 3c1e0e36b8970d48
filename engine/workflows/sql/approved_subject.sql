-- The subject of the approved review of a child's start, by the run that asks and its step. Called by engine/workflows/child_starts.py.
-- SQL, because a worker calls it, which does not load the generated client.
select a.subject
from atlas.workflow_steps s
join atlas.approvals a on a.id = s.approval_id and a.status = 'approved'
where s.run_id = :run_id
  and s.branch = :branch
  and s.position = :position;
