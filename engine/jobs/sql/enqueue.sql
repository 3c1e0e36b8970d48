-- nothing -> queued, for one job without a dedupe key, host or secret: without the arrays of enqueue_many, in half its time.
-- No row means that enqueue_many decides: there is no such tenant, it is being removed, or a rate or a key may hold the job.
-- SQL, because it is a hot verb: job, audit row and wake-up in one statement.
with made as (
  insert into atlas.jobs (id, tenant_id, job_type, input, priority, next_retry_at, scheduled_for, max_retries, retries_chosen, correlation_id,
    source, source_ref, created_by, timeout_seconds, definition_id, parent_run_id)
  select :id, o.id, :job_type, :input, coalesce(:priority::int, 0),
    case when :delay::float8 > 0 then statement_timestamp() + :delay::float8 * interval '1 second'
         when :run_at::timestamptz > statement_timestamp() then :run_at::timestamptz end,
    case when :delay::float8 > 0 then statement_timestamp() + :delay::float8 * interval '1 second' else :run_at::timestamptz end,
    coalesce(:max_retries::int, :type_retries::int, y.max_retries, 3),
    :max_retries::int is not null,
    :correlation_id, coalesce(:source::text::atlas.job_source, 'manual'), :source_ref, :actor_id, :timeout_seconds,
    :definition_id, :parent_run_id
  from atlas.tenants o
  left join atlas.job_types y on y.key = :job_type
  where o.id = :tenant_id and o.removing_at is null and o.moving_at is null and not o.limits ? 'rate'
    and y.concurrency_key is null and y.rate is null
  returning id
)
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
select :tenant_id, :actor_type::text::atlas.actor_type, :actor_id, 'JOB_CREATED', 'job', m.id, :meta, :body
from made m
-- the wake-up is sent with the commit, and says whose job of which priority and type it is
returning entity_id, pg_notify('atlas_jobs',
  :tenant_id::text || coalesce('/' || nullif(:priority::int, 0)::text, '') || ' ' || :job_type);
