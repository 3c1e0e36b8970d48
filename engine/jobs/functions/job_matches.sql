-- Whether a job passes the filters of a list that no index serves; null filters nothing. Its names are resolved when it is created,
-- so that it needs no search_path of its own, which would keep it from becoming a part of the statement that calls it.
-- Called by engine/jobs/sql/list.sql.
create or replace function job_matches(
  j jobs, p_job_type text, p_source text, p_correlation_id text, p_created_after timestamptz, p_created_before timestamptz
) returns boolean language sql stable
return (p_job_type is null or j.job_type = p_job_type)
  and (p_source is null or j.source::text = p_source)
  and (p_correlation_id is null or j.correlation_id = p_correlation_id)
  and (p_created_after is null or j.created_at >= p_created_after)
  and (p_created_before is null or j.created_at < p_created_before);
