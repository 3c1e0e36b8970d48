-- nothing -> queued, for a batch of jobs that share all but their ids, inputs, correlation ids and what their events say of a request, without a
-- dedupe key, host or secret: without the arrays and the second look at each job of enqueue_many. Correlation ids, metas and closings that all share are
-- sent once. With `with_times` the row says when each job was created.
-- No row means that enqueue_many decides: there is no such tenant, it is being removed, or a rate or a key may hold the jobs.
-- SQL, because it is a hot verb: jobs, audit rows and wake-up in one statement. Locks nothing.
with allowed as materialized (
  select o.id as tenant_id, coalesce(:max_retries::int, :type_retries::int, y.max_retries, 3) as max_retries
  from atlas.tenants o
  left join atlas.job_types y on y.key = :job_type
  where o.id = :tenant_id and o.removing_at is null and o.moving_at is null and not o.limits ? 'rate'
    and y.concurrency_key is null and y.rate is null
),
made as (
  insert into atlas.jobs (id, tenant_id, job_type, input, priority, next_retry_at, scheduled_for, max_retries, retries_chosen, correlation_id,
    source, source_ref, created_by, timeout_seconds, definition_id, parent_run_id)
  select u.id, a.tenant_id, :job_type, u.input, coalesce(:priority::int, 0),
    case when :delay::float8 > 0 then statement_timestamp() + :delay::float8 * interval '1 second'
         when :run_at::timestamptz > statement_timestamp() then :run_at::timestamptz end,
    case when :delay::float8 > 0 then statement_timestamp() + :delay::float8 * interval '1 second' else :run_at::timestamptz end,
    a.max_retries, :max_retries::int is not null, coalesce(u.correlation_id, :correlation_id::text), coalesce(:source::text::atlas.job_source, 'manual'), :source_ref,
    :actor_id, :timeout_seconds, :definition_id, :parent_run_id
  from allowed a cross join unnest(:ids::uuid[], :inputs::jsonb[], :correlation_ids::text[]) u (id, input, correlation_id)
  returning created_at
),
recorded as (
  insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
  -- the bytes of an event are alike but for the id, and the meta in what comes after it
  select a.tenant_id, :actor_type::text::atlas.actor_type, :actor_id, 'JOB_CREATED', 'job', u.id::text, coalesce(u.meta, :meta::jsonb),
    :opening::bytea || u.id::text::bytea || coalesce(u.closing, :closing::bytea)
  from allowed a cross join unnest(:ids::uuid[], :metas::jsonb[], :closings::bytea[]) u (id, meta, closing)
)
-- the wake-up is sent with the commit, and says whose jobs of which priority and type they are
select pg_notify('atlas_jobs', a.tenant_id::text || coalesce('/' || nullif(:priority::int, 0)::text, '') || ' ' || :job_type) is not null as is_made,
  case when :with_times::boolean then array(select m.created_at from made m) end as times
from allowed a;
