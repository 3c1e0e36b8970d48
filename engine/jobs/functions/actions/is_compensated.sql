-- Whether a job is a run that failed and has undone what it did: going on from its failed step would build on what is gone.
-- Called by retry_jobs and engine/jobs/actions/sql/refused_retries.sql.
create or replace function is_compensated(p_job_type text, p_status job_status, p_error jsonb) returns boolean language sql immutable
return p_job_type = 'ENGINE_RUN' and p_status = 'failed' and coalesce(p_error->'compensated' <> '[]', false);
