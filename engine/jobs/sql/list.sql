-- A page of jobs, newest first by their time-ordered ids. Without a tenant it looks across all (operators).
-- Three arms, each with the partial index of its statuses: no index holds every job of a tenant. Planned for its values,
-- an arm that the wanted status excludes costs nothing. A page ends early after the job that reaches :most_bytes, so that large
-- inputs do not fill a process; `page_size` is how many it would have had.
select id, tenant_id, status::text, case when status = 'failed' and dead_lettered_at is not null then 'dead_letter'
       when status = 'queued' and next_retry_at > clock_timestamp() then 'waiting' else status::text end as shown_status,
  job_type, definition_id, priority, input, output, error, cost_cents, retry_count, max_retries, next_retry_at, attempt_count, lost_count,
  created_at, updated_at, started_at, finished_at, lease_expires_at, claimed_by, dead_lettered_at, cancel_requested_at,
  cancel_requested_by, dedupe_key, correlation_id, source::text, source_ref, created_by, timeout_seconds, host_id, server_instance_id,
  parent_run_id, progress, page_size
from (
 select p.*, count(*) over () as page_size, sum(bytes) over (order by id desc rows between unbounded preceding and 1 preceding) as bytes_before
 from (
  select j.*, case when :most_bytes::bigint is not null then
    -- As they are stored, unless compressed: then they may be a hundred times as large.
    case when pg_column_compression(input) is null then pg_column_size(input) else octet_length(input::text) end
    + case when pg_column_compression(output) is null then pg_column_size(output) else octet_length(output::text) end
    + case when pg_column_compression(error) is null then pg_column_size(error) else octet_length(error::text) end end as bytes
  from (
   (select * from atlas.jobs
    where status = 'queued'
      and (:tenant_id::uuid is null or tenant_id = :tenant_id)
      and (:before::uuid is null or id < :before)
      and (:job_type::text is null or job_type = :job_type)
      and (:source::text is null or source = :source::text::atlas.job_source)
      and (:correlation_id::text is null or correlation_id = :correlation_id)
      and (:created_after::timestamptz is null or created_at >= :created_after)
      and (:created_before::timestamptz is null or created_at < :created_before)
      and case :status::text
            when 'waiting' then next_retry_at > clock_timestamp()
            when 'queued' then next_retry_at is null or next_retry_at <= clock_timestamp()
            else :status is null
          end
    order by id desc limit :limit::int + :offset::int)
   union all
   (select * from atlas.jobs
    where status = 'running'
      and (:tenant_id::uuid is null or tenant_id = :tenant_id)
      and (:before::uuid is null or id < :before)
      and (:job_type::text is null or job_type = :job_type)
      and (:source::text is null or source = :source::text::atlas.job_source)
      and (:correlation_id::text is null or correlation_id = :correlation_id)
      and (:created_after::timestamptz is null or created_at >= :created_after)
      and (:created_before::timestamptz is null or created_at < :created_before)
      and (:status is null or :status = 'running')
    order by id desc limit :limit::int + :offset::int)
   union all
   (select * from atlas.jobs
    where status in ('succeeded', 'failed', 'canceled')
      and (:tenant_id::uuid is null or tenant_id = :tenant_id)
      and (:before::uuid is null or id < :before)
      and (:job_type::text is null or job_type = :job_type)
      and (:source::text is null or source = :source::text::atlas.job_source)
      and (:correlation_id::text is null or correlation_id = :correlation_id)
      and (:created_after::timestamptz is null or created_at >= :created_after)
      and (:created_before::timestamptz is null or created_at < :created_before)
      and case :status
            when 'dead_letter' then status = 'failed' and dead_lettered_at is not null
            else :status is null or status::text = :status
          end
    order by id desc limit :limit::int + :offset::int)
  ) j
  order by id desc
  limit :limit
  offset :offset
 ) p
) page
where bytes_before is null
   or bytes_before < :most_bytes
order by id desc;
