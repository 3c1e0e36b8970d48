-- Two lists of counts, added place by place; where one is shorter, the other's counts. Called by add_to_job_totals.
create or replace function add_counts(p_one bigint[], p_other bigint[]) returns bigint[] language sql immutable
return array(
  select coalesce(u.one, 0) + coalesce(u.other, 0) from unnest(p_one, p_other) with ordinality u(one, other, n) order by u.n);
