-- Minutes and hours of all tenants that are past their ages -> removed, so many at a time. Looks across tenants. Called by
-- engine/series.py. SQL, because the ages are by the database's clock, and the number of rows is bounded.
delete from atlas.job_series
where ctid = any (array(
  (select ctid from atlas.job_series where step = 'minute' and begins_at < clock_timestamp() - make_interval(days => :minutes_days::int) limit :limit::int)
  union all
  (select ctid from atlas.job_series where step = 'hour' and begins_at < clock_timestamp() - make_interval(days => :hours_days::int) limit :limit)))
returning 1;
