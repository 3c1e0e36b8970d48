-- Which of these jobs that run under a worker were asked to stop. By their ids: the index of running jobs keeps the entries of finished ones
-- while something holds the xmin horizon. Looks across tenants: a worker serves them all. SQL, because a worker calls it, which does
-- not load the generated client.
select id, attempt_count
from only atlas.jobs
where id = any (:ids::uuid[])
  and case when claimed_by = :worker and status = 'running' then cancel_requested_at is not null else false end;
