-- How many bytes a job's input may have. Becomes a part of the statement, as is_ready. Called by enqueue.
create or replace function input_limit(job_type text) returns int language sql immutable parallel safe
return case when canonical_type(job_type) = 'EMAIL_SEND' then 3 * 1024 * 1024 else 256 * 1024 end;
