-- nothing -> queued, for any number of jobs: tenant check, dedupe, insert, JOB_CREATED and the wake-up.
-- Returns only the jobs that already existed under an active dedupe key. The other fields of a new job are the columns.
-- SQL, because a function does it.
select nth, id
from atlas.enqueue_many(
  :actor_type, :actor_id, :coalesce, :ids, :tenants, :types, :inputs, :metas, :bodies, p_delay => :delays,
  p_dedupe_key => :dedupe_keys, p_dedupe_hash => :dedupe_hashes, p_type_retries => :type_retries, p_expires_in => :expirations,
  p_limit_by => :limit_by, :columns);
