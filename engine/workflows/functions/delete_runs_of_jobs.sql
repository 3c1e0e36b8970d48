-- Deleted jobs take their runs along; a run that waited for one of them is woken and finds it gone. Jobs that move into history are not
-- deleted: move_to_history says so, and no one else runs as the owner of the tables.
create or replace function delete_runs_of_jobs() returns trigger language plpgsql
set search_path from current as $$
declare
  runs uuid[] := array(select id from gone where job_type = 'ENGINE_RUN');
  children uuid[];
begin
  if current_setting('atlas.is_moving', true) = 'on' and current_user = (select c.relowner::regrole::text from pg_class c where c.oid = 'jobs'::regclass) then
    return null;
  end if;
  if cardinality(runs) > 0 then
    delete from workflow_steps where run_id = any (runs);
    delete from workflow_runs where id = any (runs);
    perform cancel_approvals(runs, 'engine');
    update intents set status = 'failed', reason = 'its run was deleted', updated_at = clock_timestamp()
    where id = any (runs) and status = 'queued';
    children := array(select id from only jobs where parent_run_id = any (runs) and status in ('queued', 'running'));
    if cardinality(children) > 0 then
      perform cancel_jobs(children, null, 'system', 'engine', '{"reason": "the run that started it was deleted"}');
    end if;
  end if;
  perform wake_parents(array(select distinct parent_run_id from gone where parent_run_id is not null));
  return null;
end $$;

select secure_trigger('jobs', 'jobs_deleted',
  'after delete on jobs
  referencing old table as gone for each statement execute function delete_runs_of_jobs()');
