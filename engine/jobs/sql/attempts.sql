-- The attempts of one job, oldest first. Without a tenant it looks across all (operators). SQL, because it reads a view, and
-- Prisma's Python client has models of tables alone.
select job_run_id, attempt_no, worker_id, host_id, pid, status::text, started_at, finished_at, duration_ms, exit_code, stdout_tail,
  stderr_tail, log_tail, error_text, outcome, result, log_ref
from atlas.job_runs
where job_id = :job_id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:after::bigint is null or attempt_no > :after)
order by attempt_no
limit :limit::bigint;
