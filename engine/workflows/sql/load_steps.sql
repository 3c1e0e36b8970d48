-- What runs have recorded, and what has come of what they wait for. Looks across tenants: a worker serves them all.
-- SQL, because a function does it.
select run_id, branch, position, name, kind, status, attempts, output, error, due, child_id, child_status, child_output, child_error,
  event_name, event_context, approval_status, approval_by, approval_comment, event_gone
from atlas.load_runs(:runs);
