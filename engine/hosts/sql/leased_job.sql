-- A job while its lease lasts, for the report of its holder; with the retry policy of its type, whether it was
-- asked to stop, and whether its event carries a digest of its output. SQL, because the guard is on the database's clock.
select j.id, j.tenant_id, j.job_type, j.input, j.attempt_count, j.retry_count,
  atlas.retries_of(j.job_type, j.max_retries, j.retries_chosen) as max_retries, j.lost_count, j.timeout_seconds,
  j.definition_id, j.parent_run_id, j.correlation_id, false as alone, null::float8 as start_within,
  extract(epoch from j.finish_by - clock_timestamp())::float8 as finish_within, y.retry_policy,
  j.cancel_requested_at is not null as asked_to_stop, j.definition_id is not null or coalesce(y.audit_content, false) as is_audited
from only atlas.jobs j
left join atlas.job_types y on y.key = j.job_type
where j.id = :job_id
  and j.status = 'running'
  and j.claimed_by = :claimant
  and j.attempt_count = :attempt
  and j.lease_expires_at > clock_timestamp();
