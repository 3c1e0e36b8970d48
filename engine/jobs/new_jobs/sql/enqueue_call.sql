-- nothing -> queued by the SQL function, for callers that may not use the tables: it admits the job as well.
-- Called by engine/jobs/new_jobs/enqueue_call.py, over any driver; so every type is named. The options of NewJobOptions are the columns.
-- SQL, because a function does it.
select id, deduplicated
from atlas.enqueue(
  tenant => :tenant::text, job_type => :job_type::text, input => :input::text::jsonb, actor => coalesce(:actor::text, session_user::text),
  timeout_seconds => :timeout_seconds::int, coalesced => :coalesced::boolean, :columns);
