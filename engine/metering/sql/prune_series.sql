-- Steps of all tenants that are past the ages of their kinds -> removed, a bounded number of each at a time. Looks across tenants. Called by
-- engine/metering/series.py. SQL, because the ages are by the database's clock, and the number of rows is bounded.
delete from atlas.job_series
where ctid = any (array(
  select s.ctid
  from unnest(:steps::text[], :days::int[]) k(step, days)
  cross join lateral (
    select ctid from atlas.job_series
    where step = k.step::atlas.series_step
      and begins_at < clock_timestamp() - make_interval(days => k.days)
    limit :limit::int) s))
returning 1;
