-- Whether a job is in this list of rare ones: 'waiting', 'failed' or 'dead_letter'. Word for word the condition and the first key of the index
-- jobs_tenant_listed. The key compares no status, for behind row-level security such a comparison would keep it from the index. The names
-- are resolved when it is created, so that it needs no search_path of its own, which would keep it from becoming a part of the statement.
-- Called by the functions job_keys, list_jobs and count_dead_letters, and api/metrics/sql/metrics_depth.sql.
create or replace function is_listed(j jobs, p_list text) returns boolean language sql immutable
return case when j.next_retry_at is null then j.status in ('failed', 'canceled') else true end
  and case when j.next_retry_at is not null then 'waiting' when j.dead_lettered_at is not null then 'dead_letter' else 'failed' end = p_list;
