-- The rows 'place' of a claim that goes on from places: of each place of ready jobs, when the newest was created that is claimed; of each place of limited
-- jobs (p_limited), when the oldest was created that is left. p_picked: what is claimed; p_ready: those that came from places of ready jobs.
-- Called by claim_with_limits, under its plan settings.
create or replace function claimed_places(p_picked tid[], p_ready tid[], p_limited jsonb) returns setof turn_row language plpgsql volatile
set search_path from current as $$
declare
  place turn_row := turn_signal('place');
begin
  for place.job_type, place.tenant_id, place.attempt_count, place.start_within in
    select j.job_type, j.tenant_id, j.priority, extract(epoch from max(j.created_at)) from only jobs j
    where j.ctid = any (p_picked) and j.ctid = any (p_ready) group by j.tenant_id, j.job_type, j.priority
  loop
    return next place;
  end loop;
  place.alone := true;
  for place.job_type, place.tenant_id, place.attempt_count, place.start_within in
    select p.job_type, p.tenant_id, p.priority, extract(epoch from f.created_at) - 0.001
    from (
      select e->>0 as job_type, (e->>1)::uuid as tenant_id, (e->>2)::int as priority, to_timestamp(min((e->>3)::float8)) as since
      from jsonb_array_elements(p_limited) e group by 1, 2, 3) p
    cross join lateral (
      select j.created_at from only jobs j
      where is_ready_limited(j) and j.tenant_id = p.tenant_id and j.job_type = p.job_type and j.priority = p.priority and j.created_at >= p.since
        and j.ctid <> all (p_picked)
      order by j.priority desc, j.created_at limit 1) f
  loop
    return next place;
  end loop;
end $$;
