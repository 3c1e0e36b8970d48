-- The rows 'place' of a claim that found fewer jobs at these places than it requested (see resume_places): of each where a ready job is left, when the oldest
-- of the highest priority was created. Another claim had locked that job, and may take fewer than it locks (see pick_groups): whoever goes on behind it
-- would not see it again. They come after the rows of claimed_places, which say where the newest was claimed. Reads without locks.
-- Called by claim_with_limits, under its plan settings.
create or replace function left_places(
  p_picked tid[], p_resume jsonb, p_types text[], p_paused_types text[], p_paused_tenants uuid[]
) returns setof turn_row language plpgsql volatile
set search_path from current as $$
declare
  place turn_row := turn_signal('place');
begin
  for place.job_type, place.tenant_id, place.attempt_count, place.start_within in
    select p.job_type, p.tenant_id, f.priority, extract(epoch from f.created_at)
    from resume_places(p_resume, p_types, p_paused_types, p_paused_tenants) r
    cross join lateral unnest(r.types, r.tenants, r.priorities, r.since) p(job_type, tenant_id, priority, since)
    cross join lateral (
      select * from (
        select * from (
          select j.priority, j.created_at from only jobs j
          where is_ready(j) and j.job_type = p.job_type and j.tenant_id = p.tenant_id and p.priority is null and j.ctid <> all (p_picked)
          order by j.priority desc, j.created_at limit 1) every
        union all
        select * from (
          select j.priority, j.created_at from only jobs j
          where is_ready(j) and j.job_type = p.job_type and j.tenant_id = p.tenant_id and j.priority = p.priority and j.created_at >= p.since
            and j.ctid <> all (p_picked)
          order by j.priority desc, j.created_at limit 1) resumed) o
      limit 1) f
  loop
    return next place;
  end loop;
end $$;
