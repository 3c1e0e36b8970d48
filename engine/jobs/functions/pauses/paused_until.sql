-- The due time of the runs that a pause with this number holds: far in the future, and used for nothing else. Waits without an end stand
-- at the end of that year. Called by pause_runs and resume_runs.
create or replace function paused_until(p_number bigint) returns timestamptz language sql immutable
return timestamptz '9999-01-01 00:00:00+00' + p_number * interval '1 millisecond';
