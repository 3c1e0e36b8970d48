-- How many of these seconds fall into each bucket of duration_bounds, a bound included, and above the last. Nulls are left out.
-- Called by add_to_job_totals and add_to_job_series.
create or replace function histogram(p_seconds float8[]) returns bigint[] language sql immutable
set search_path from current as $$
  select array_agg(coalesce(c.count, 0) order by n)
  from generate_series(0, cardinality(duration_bounds())) n
  left join (
    -- Turned round, because a bucket of width_bucket includes its lower bound.
    select cardinality(duration_bounds()) - width_bucket(-s, array(select -b from unnest(duration_bounds()) b order by b desc)) as bucket,
      count(*) as count
    from unnest(p_seconds) s
    where s is not null
    group by 1) c on c.bucket = n
$$;
