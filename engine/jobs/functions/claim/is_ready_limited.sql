-- Whether a job is due for any worker and is counted against a limit first, or must run alone. Word for word the condition of the index
-- jobs_ready_careful; see is_ready. Called by every function and statement that looks for such jobs.
create or replace function is_ready_limited(j jobs) returns boolean language sql immutable
return j.status = 'queued' and j.next_retry_at is null and j.host_id is null and j.careful;
