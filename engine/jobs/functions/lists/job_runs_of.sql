-- The rows of the view job_runs for these jobs. The view looks into every table of history, see rows_of_jobs. Called by the typed client.
create or replace function job_runs_of(p_ids uuid[]) returns setof job_runs language plpgsql stable
set search_path from current as $$
begin
  return query
  with held as materialized (select j.* from rows_of_jobs(null::jobs, p_ids) j),
  attempts as materialized (select a.* from rows_of_jobs(null::job_attempts, p_ids) a)
  select a.job_id || ':' || a.attempt_no, a.job_id, a.attempt_no, j.tenant_id, j.job_type, a.worker_id, a.host_id,
    a.pid, a.status, a.started_at, a.finished_at, a.duration_ms, a.exit_code, a.stdout_tail, a.stderr_tail,
    a.log_tail, a.error_text, a.outcome,
    -- Its row has a result only where that is not the job's output.
    case when a.status = 'succeeded' and a.result = '{}' and a.attempt_no = j.attempt_count then j.output else a.result end, a.log_ref
  from attempts a
  join held j on j.id = a.job_id
  union all
  select j.id || ':' || j.attempt_count, j.id, j.attempt_count, j.tenant_id, j.job_type, j.claimed_by, j.host_id,
    null, (case when j.status = 'running' then 'running' else 'succeeded' end)::attempt_status, j.started_at, j.finished_at,
    case when j.finished_at is not null then least(2147483647, extract(epoch from j.finished_at - j.started_at) * 1000) end::int,
    null, null, null, null, null, null, case when j.status = 'running' then '{}' else j.output end, null
  from held j
  where j.status in ('running', 'succeeded') and j.attempt_count > 0
    and not exists (select from attempts a where a.job_id = j.id and a.attempt_no = j.attempt_count);
end $$;
