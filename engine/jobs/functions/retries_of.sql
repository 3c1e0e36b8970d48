-- How often a job is retried: as it says itself, else as its type is published now. For those who read jobs and for claimants
-- without the handler; a worker takes the number of the handler that it has.
-- Called by engine/jobs/sql/get.sql, list.sql and explain.sql, and by claim_leased.
create or replace function retries_of(job_type text, max_retries int) returns int language sql stable parallel safe
set search_path from current as $$
  select coalesce(retries_of.max_retries, (select y.max_retries from job_types y where y.key = retries_of.job_type), 3)
$$;
