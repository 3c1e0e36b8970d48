-- The ids of a page of jobs, and how far it looked. Called by engine/jobs/lists/job_list.py, which reads the jobs of a page typed. SQL, because
-- the function merges several partial indexes in reads that are bounded: Prisma has neither.
select id, nullif(at, 'infinity') as at, page_size, matched, nullif(reached_at, 'infinity') as reached_at, reached, searched_back_to
from atlas.list_jobs(
  :lists::text[], :examined::int, coalesce(:before_at::timestamptz, 'infinity'), :before::uuid, coalesce(:after_at::timestamptz, '-infinity'), :after::uuid, :lowest::uuid, :highest::uuid,
  :limit::int, :offset::int, :max_bytes::bigint, :tenant_id::uuid, :statuses::text[], :job_type::text, :source::text, :correlation_id::text,
  :created_after::timestamptz, :created_before::timestamptz, :finished_after::timestamptz, :finished_before::timestamptz, :worker_id::text,
  :host_id::uuid, :parent_run_id::uuid, :group_id::uuid, :error_type::text, :error_text::text, :error_pattern::text, :active_after::uuid);
