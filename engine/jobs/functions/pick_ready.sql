-- Locks the best ready jobs that are not careful and returns their addresses, best first.
-- p_types null means every type. One type reads its own index; several read the global one when the queue holds
-- nothing else, and one arm per type otherwise, so that jobs of other types in front cost nothing.
-- Runs under the plan settings of claim_careful, which calls it.
create or replace function pick_ready(p_types text[], p_limit int) returns tid[] language plpgsql volatile
set search_path from current as $$
declare
  strangers boolean := false;
begin
  if cardinality(p_types) = 1 then
    return array(
      select ctid from jobs
      where status = 'queued' and next_retry_at is null and host_id is null and not careful and job_type = p_types[1]
      order by priority desc, created_at limit p_limit for update skip locked);
  end if;
  if p_types is not null then
    -- Walks from type to type along the index: as many probes as there are types in the queue.
    strangers := exists (
      with recursive present as (
        (select job_type from jobs
         where status = 'queued' and next_retry_at is null and host_id is null and not careful
         order by job_type limit 1)
        union all
        select (select j.job_type from jobs j
                where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
                  and j.job_type > p.job_type
                order by j.job_type limit 1)
        from present p where p.job_type is not null)
      select from present where job_type is not null and not job_type = any (p_types));
  end if;
  if not strangers then
    return array(
      select ctid from jobs
      where status = 'queued' and next_retry_at is null and host_id is null and not careful
        and (p_types is null or job_type = any (p_types))
      order by priority desc, created_at limit p_limit for update skip locked);
  end if;
  return array(
    select a.at from unnest(p_types) t(job_type)
    cross join lateral (
      select ctid as at, priority, created_at from jobs j
      where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
        and j.job_type = t.job_type
      order by j.priority desc, j.created_at limit p_limit for update skip locked) a
    order by a.priority desc, a.created_at limit p_limit);
end $$;
