-- When the first pending approval of each of these runs expires. Called by engine/workflows/find_runs.py. SQL, because it groups.
select run_id, min(expires_at) as expires_at
from atlas.approvals
where run_id = any (:ids::uuid[])
  and status = 'pending'
group by run_id;
