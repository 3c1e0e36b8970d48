-- The tables whose rows go into history with their jobs, and the column that names the job. Called by move_to_history, return_part,
-- return_from_history and drop_history_part.
create or replace function history_tables() returns table (name text, key text) language sql immutable
set search_path from current as $$
  values ('job_attempts', 'job_id'), ('job_secrets', 'job_id'), ('mail_ledger', 'job_id'), ('effects', 'job_id'), ('usage_costs', 'job_id'),
    ('workflow_steps', 'run_id'), ('workflow_runs', 'id')
$$;
