-- What happened to jobs in the steps from :start up to :end, added up by :by; without a tenant, of all of them. Called by engine/metering/series.py.
-- SQL, because a function adds up the lists.
select s.*
from atlas.sum_job_series(
  :tenant_id::uuid, :step::text::atlas.series_step, :start, :end, :job_type::text, :by::text, :with_points::boolean, :most::int) s;
