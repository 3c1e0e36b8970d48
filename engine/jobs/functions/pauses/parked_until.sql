-- The due time of runs that are parked for the pause with this number: far away, and nothing else has it. Waits without an end stand
-- at the end of that year. Called by park_runs and unpark_runs.
create or replace function parked_until(p_number bigint) returns timestamptz language sql immutable
set search_path from current as $$ select timestamptz '9999-01-01 00:00:00+00' + p_number * interval '1 millisecond' $$;
