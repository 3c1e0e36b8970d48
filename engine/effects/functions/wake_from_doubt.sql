-- queued for a person's answer -> due. Returns whether the job goes on. A job that a limit holds stays held.
-- Locks: job row. Called by end_effect and settle_effect.
create or replace function wake_from_doubt(p_job uuid) returns boolean language plpgsql volatile
set search_path from current as $$
begin
  update only jobs j set next_retry_at = null, due_at = clock_timestamp()
  where j.id = p_job and case when j.status = 'queued' and j.next_retry_at = '9999-12-31 00:00:00+00' and j.held_by is null then true else false end
    and j.job_type <> 'ENGINE_RUN';
  if not found then
    return false;
  end if;
  perform pg_notify(current_schema() || '_jobs', '');
  return true;
end $$;
