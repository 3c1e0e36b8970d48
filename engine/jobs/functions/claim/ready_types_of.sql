-- Those of these types that have ready jobs which are not limited, if few types have such jobs; otherwise all of them. A worker that serves every registered
-- type names hundreds, and jobs are ready of some: walks from type to type along the index, up to a quarter as many as were named.
-- Called by pick_ready.
create or replace function ready_types_of(p_types text[]) returns text[] language plpgsql volatile
set search_path from current as $$
begin
  return (
    with recursive walk as (
      (select 1 as nth, j.job_type from only jobs j
       where is_ready(j)
       order by j.job_type limit 1)
      union all
      select w.nth + 1, (
        select j.job_type from only jobs j
        where is_ready(j) and j.job_type > w.job_type
        order by j.job_type limit 1)
      from walk w where w.job_type is not null and w.nth <= cardinality(p_types) / 4)
    select case when max(w.nth) filter (where w.job_type is not null) > cardinality(p_types) / 4 then p_types
                else coalesce(array_agg(w.job_type) filter (where w.job_type = any (p_types)), '{}') end
    from walk w);
end $$;
