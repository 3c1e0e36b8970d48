-- Which of these jobs that run under a worker were asked to stop. By their ids: the index of running jobs keeps the entries of finished ones
-- while something holds the xmin horizon. One by one: for a list of hundreds the planner of Postgres 15 reads the whole table.
-- Looks across tenants: a worker serves them all. SQL, because a worker calls it, which does not load the generated client.
select j.id, j.attempt_count
from unnest(:ids::uuid[]) u(id)
cross join lateral (
  select k.id, k.attempt_count
  from only atlas.jobs k
  where k.id = u.id
    and case when k.claimed_by = :worker and k.status = 'running' then k.cancel_requested_at is not null else false end
  limit 1) j;
