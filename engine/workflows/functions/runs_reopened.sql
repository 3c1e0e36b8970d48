-- A run that an operator retries goes on from the step that failed: its recorded failure is deleted. Called by retry_jobs.
create or replace function runs_reopened(p_ids uuid[]) returns void language plpgsql volatile
set search_path from current as $$
begin
  delete from only workflow_steps s
  using only jobs j
  cross join lateral jsonb_to_recordset(case when jsonb_typeof(j.error->'steps') = 'array' then j.error->'steps' else '[]' end)
    f(branch text, position int)
  where j.id = any (p_ids) and s.run_id = j.id and s.branch = f.branch and s.position = f.position and s.status = 'failed';
  -- Waits that a cancel cut off begin anew: their children and approvals were canceled with the run.
  delete from only workflow_steps s
  where s.run_id = any (p_ids) and s.status = 'waiting'
    and (exists (select from only jobs c where c.id = s.child_id and c.status = 'canceled')
      or exists (select from approvals a where a.id = s.approval_id and a.status = 'canceled'));
  update intents set status = 'queued', reason = null, updated_at = clock_timestamp()
  where id = any (p_ids) and status = 'failed';
end $$;
