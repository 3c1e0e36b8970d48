-- A job as a claim returns it. Becomes a part of the statement, as is_ready: `returning (claimed_row(j)).*` computes each column once.
-- Called by claim and start_jobs.
create or replace function claimed_row(j jobs) returns turn_row language sql volatile
return row(
  'claimed', j.id, j.tenant_id, j.job_type, j.input, j.attempt_count, j.retry_count, case when j.retries_chosen then j.max_retries end, j.lost_count,
  j.timeout_seconds, j.definition_id, j.parent_run_id, j.correlation_id, j.server_instance_id, j.lost_count >= alone_after_losses(),
  case when j.start_by is not null then extract(epoch from j.start_by - clock_timestamp())::float8 end,
  case when j.finish_by is not null then extract(epoch from j.finish_by - clock_timestamp())::float8 end)::turn_row;
