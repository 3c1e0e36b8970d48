-- Whether a job passes the filters of a list that no index serves; null filters nothing, and an empty type or pattern of an error
-- finds jobs without one. Its names are resolved when it is created,
-- so that it needs no search_path of its own, which would keep it from becoming a part of the statement that calls it.
-- Called by the function list_jobs.
create or replace function job_matches(
  j jobs, p_job_type text, p_source text, p_created_after timestamptz, p_created_before timestamptz, p_finished_after timestamptz,
  p_finished_before timestamptz, p_worker_id text, p_host_id uuid, p_error_type text, p_error_text text, p_error_pattern text
) returns boolean language sql stable
return (p_job_type is null or j.job_type = p_job_type)
  and (p_source is null or j.source::text = p_source)
  and (p_created_after is null or j.created_at >= p_created_after)
  and (p_created_before is null or j.created_at < p_created_before)
  and (p_finished_after is null or j.finished_at >= p_finished_after)
  and (p_finished_before is null or j.finished_at < p_finished_before)
  and (p_worker_id is null or j.claimed_by = p_worker_id)
  and (p_host_id is null or j.host_id = p_host_id)
  and (p_error_type is null or coalesce(j.error->>'type', '') = p_error_type)
  and (p_error_text is null or strpos(lower(j.error->>'message'), lower(p_error_text)) > 0)
  and (p_error_pattern is null or error_pattern(coalesce(j.error->>'message', '')) = p_error_pattern);
