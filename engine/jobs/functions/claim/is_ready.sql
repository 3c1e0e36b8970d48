-- Whether a job is due for any worker, with nothing to count first. Word for word the condition of the index jobs_ready_by_tenant: a statement
-- that names it can use the index. The names are resolved when it is created, so that it needs no search_path of its own, which would keep
-- it from becoming a part of the statement. Called by every function and statement that looks for ready jobs.
create or replace function is_ready(j jobs) returns boolean language sql immutable
return j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful;
