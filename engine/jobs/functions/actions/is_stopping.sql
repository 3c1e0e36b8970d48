-- Whether a child that this run waited for, or one of that, was asked to stop and still runs: a retry of the run would run beside it.
-- Called by retry_jobs and engine/jobs/actions/sql/refused_retries.sql.
create or replace function is_stopping(p_run uuid) returns boolean language sql stable
set search_path from current set enable_seqscan = off set jit = off as $$
  with recursive below as (
    select c.id, c.status, c.cancel_requested_at from workflow_steps s
    join jobs c on c.id = s.child_id
    where s.run_id = p_run and s.status in ('waiting', 'failed')
    union
    select c.id, c.status, c.cancel_requested_at from below b
    join workflow_steps s on s.run_id = b.id and s.status in ('waiting', 'failed')
    join jobs c on c.id = s.child_id)
  select exists (select from below b where b.status = 'running' and b.cancel_requested_at is not null)
$$;
