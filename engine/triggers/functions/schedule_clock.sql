-- The clock that schedules are due by. A function of its own, so that a test can let days pass in seconds.
create or replace function schedule_clock() returns timestamptz language sql volatile
set search_path from current as $$ select clock_timestamp() $$;
