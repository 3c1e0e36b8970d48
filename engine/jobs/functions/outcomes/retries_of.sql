-- How often a job is retried: as it chose, else as its type is published now, else as it was when the job was enqueued. For those who
-- read jobs and for claimants without the handler; a worker takes the number of the handler that it has.
-- Called by engine/jobs/explain/sql/explain.sql, engine/hosts/sql/leased_job.sql, engine/sql/retries.sql and claim_leased. The view
-- shown_jobs says the same: it is older than every function.
create or replace function retries_of(job_type text, max_retries int, retries_chosen boolean) returns int
language plpgsql stable parallel safe
set search_path from current as $$
begin
  return case when retries_of.retries_chosen then retries_of.max_retries
    else coalesce((select y.max_retries from job_types y where y.key = retries_of.job_type), retries_of.max_retries) end;
end $$;
