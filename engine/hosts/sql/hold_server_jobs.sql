-- How many jobs of a server instance are in each state, all of them locked. The caller holds the instance.
-- Called by engine/hosts/server_instances.py. SQL, because a function locks the jobs.
select status::text as status, count(*)::int as count
from atlas.hold_server_jobs(:id)
group by status;
