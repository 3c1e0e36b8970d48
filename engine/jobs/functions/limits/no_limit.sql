-- The id under which counted_jobs has the running jobs of all types and tenants with a limit. Called by count_limited_running and note_limited_running.
create or replace function no_limit() returns uuid language sql immutable
return '00000000-0000-0000-0000-000000000000'::uuid;
