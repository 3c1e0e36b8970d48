-- Which of these waits are stored already: the response to storing them was lost, and they are sent again.
-- Looks across tenants: a worker serves them all. SQL, because it is a batch.
select s.run_id, s.branch, s.position, s.child_id is not null as has_child
from unnest(:runs::uuid[], :branches::text[], :positions::int[]) u(run_id, branch, position)
join only atlas.workflow_steps s on s.run_id = u.run_id and s.branch = u.branch and s.position = u.position
where s.status = 'waiting';
