-- The upper bounds of the buckets that times of jobs are counted in, in seconds.
-- Called by job_minutes, add_to_job_totals, add_to_job_series, sum_job_series and api/metrics/sql/metrics_totals.sql.
create or replace function duration_bounds() returns float8[] language sql immutable
return '{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}'::float8[];
