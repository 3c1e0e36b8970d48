-- The status of a job as lists and counts show it: with the derived `waiting` and `dead_letter`. Its names are resolved when it is
-- created, so that it needs no search_path of its own, which would keep it from becoming a part of the statement that calls it. So would
-- clock_timestamp(), which is volatile: called as a function it takes 5 us for each job that a list examines.
-- Called by the function list_jobs, discard_jobs, and api/live/sql/changes.sql. The view shown_jobs,
-- which reads single jobs, says the same: it is older than every function.
create or replace function shown_status(j jobs) returns text language sql stable
return case
  when j.status = 'failed' and j.dead_lettered_at is not null then 'dead_letter'
  when j.status = 'queued' and j.next_retry_at > statement_timestamp() then 'waiting'
  else j.status::text end;
