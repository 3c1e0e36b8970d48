-- queued -> running for jobs that their claim has locked, but for those whose latest start is over. See claim for the arguments.
-- Called by claim_with_limits and claim_leased. Runs under their plan settings.
create or replace function start_jobs(p_picked tid[], p_worker text, p_lease float8) returns setof turn_row language plpgsql volatile
set search_path from current as $$
begin
  return query
  update only jobs j
  -- The guard reads the clock before: a job that it lets start in time did so.
  set status = 'running', started_at = least(clock_timestamp(), j.start_by), updated_at = clock_timestamp(), claimed_by = p_worker,
      attempt_count = j.attempt_count + 1, lease_expires_at = case when p_lease is not null then clock_timestamp() + p_lease * interval '1 second' end
  where j.ctid = any (p_picked) and case when j.status = 'queued' and (j.start_by is null or j.start_by > clock_timestamp()) then true else false end
  returning (claimed_row(j)).*;
end $$;
