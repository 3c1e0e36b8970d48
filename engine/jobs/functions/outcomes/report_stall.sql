-- Notes that a worker's event loop does not turn, and the job whose handler keeps it, if that is known. It is the evidence when the worker
-- is lost; a heartbeat clears it. Returns false for a worker that is dead or unknown. Called by engine/jobs/attempts/stalls.py.
create or replace function report_stall(p_worker text, p_seconds float8, p_job uuid, p_stack text) returns boolean language plpgsql volatile
set search_path from current as $$
declare
  noted jsonb;
begin
  update job_workers
  set stall = jsonb_build_object('since', clock_timestamp() - p_seconds * interval '1 second', 'stack', p_stack), suspect_job_id = p_job
  where worker_id = p_worker and dead_at is null;
  if not found then
    return false;
  end if;
  noted := jsonb_strip_nulls(jsonb_build_object('seconds', round(p_seconds::numeric, 1), 'job', p_job));
  perform record_event(null, 'system', 'watchdog', 'error', 'WORKER_STALLED', 'worker', p_worker, '', noted);
  return true;
end $$;
