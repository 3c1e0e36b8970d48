-- Lists of counts of the same length, added up place by place. Called by add_to_job_totals.
create or replace function sum_counts(p_lists bigint[]) returns bigint[] language sql immutable
return (
  select array_agg(s.count order by s.place)
  from (
    select (u.n - 1) % array_length(p_lists, 2) as place, sum(u.count)::bigint as count
    from unnest(p_lists) with ordinality u(count, n)
    group by 1) s);
