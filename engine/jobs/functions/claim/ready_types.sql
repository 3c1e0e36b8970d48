-- The types of the ready jobs that are not limited. Walks from type to type along the index: as many probes as there are.
-- Called by pick_ready.
create or replace function ready_types() returns text[] language plpgsql volatile
set search_path from current as $$
begin
  return (
    with recursive walk as (
      (select j.job_type from only jobs j
       where is_ready(j)
       order by j.job_type limit 1)
      union all
      select (
        select j.job_type from only jobs j
        where is_ready(j) and j.job_type > w.job_type
        order by j.job_type limit 1)
      from walk w where w.job_type is not null)
    select array(select w.job_type from walk w where w.job_type is not null));
end $$;
