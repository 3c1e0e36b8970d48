-- What happened to jobs since the installation began, by type, and the bounds of the buckets that their times are counted in; for
-- callers that see all tenants. SQL, because a function gives the bounds.
select job_type, enqueued, succeeded, retried, failed, dead_lettered, canceled, waits, wait_seconds, runs, run_seconds,
  atlas.duration_bounds() as bounds
from atlas.job_totals
order by job_type;
