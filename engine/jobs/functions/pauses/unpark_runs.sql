-- The name of resume_runs that programs of the version before call.
create or replace function unpark_runs(p_limit int) returns int language sql volatile
set search_path from current as $$ select resume_runs(p_limit) $$;
