-- Recurring functions. Without a tenant it looks across all (operators, and the programs that run them).
select tenant_id, id, start_at, repeat_seconds, timeout_seconds, next_run_at,
  extract(epoch from next_run_at - clock_timestamp())::float8 as due_in,
  case when lease_expires_at > clock_timestamp() then locked_by end as locked_by, run_count, last_started_at, last_finished_at,
  last_outcome, last_error
from atlas.recurring_jobs
where :tenant_id::uuid is null or tenant_id = :tenant_id
order by tenant_id, id;
