-- nothing -> queued by the SQL function, for callers that may not use the tables: it admits the job as well.
-- Called by engine/jobs/enqueue_call.py, over any driver; so every type is named. SQL, because a function does it.
select id, deduplicated
from atlas.enqueue(
  tenant => :tenant::text, job_type => :job_type::text, input => :input::text::jsonb, priority => :priority::int,
  run_at => :run_at::timestamptz, max_retries => :max_retries::int, dedupe_key => :dedupe_key::text,
  correlation_id => :correlation_id::text, actor => coalesce(:actor::text, session_user::text),
  delay => make_interval(secs => :delay::float8), timeout_seconds => :timeout_seconds::int, coalesced => :coalesced::boolean,
  allow_unknown => :allow_unknown::boolean, start_by => :start_by::timestamptz, expires_in => make_interval(secs => :expires_in::float8),
  finish_by => :finish_by::timestamptz);
