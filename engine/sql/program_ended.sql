-- A scheduler or an API ends. SQL, because it stands beside program_runs.sql.
delete from atlas.running_programs where id = :id;
