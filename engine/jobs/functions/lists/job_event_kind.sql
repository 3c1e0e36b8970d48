-- What an audit row about a job says happened to it; null where its status did not change, or only between active ones. Types may
-- name their outcomes as they like: such a row has the attempt, and the level of a success or of a failure.
-- Its names are resolved when it is created, so that it needs no search_path of its own, which would keep it from becoming a part of
-- the statement that calls it. Called by add_to_job_counts, add_to_dead_letters and job_minutes.
create or replace function job_event_kind(p_action text, p_level audit_level, p_meta jsonb) returns text language sql immutable
return case p_action
  when 'JOB_CREATED' then 'enqueued'
  when 'JOB_SUCCEEDED' then 'succeeded'
  when 'JOB_FAILED' then 'failed'
  when 'JOB_EXHAUSTED_RETRIES' then 'dead_lettered'
  when 'JOB_POISONED' then 'dead_lettered'
  when 'JOB_CANCELED' then 'canceled'
  when 'JOB_RETRY_SCHEDULED' then 'retried'
  when 'JOB_RETRIED' then 'reopened'
  when 'JOB_DELETED' then 'deleted'
  when 'JOB_DISCARDED' then 'discarded'
  else case when p_meta ? 'attempt' then case p_level when 'info' then 'succeeded' when 'error' then 'failed' end end
end;
