-- nothing -> queued, for any number of jobs: tenant check, dedupe, insert, JOB_CREATED and the wake-up.
-- Returns only the jobs that already existed under an active dedupe key. SQL, because a function does it.
select nth, id
from atlas.enqueue_many(
  :actor_type, :actor_id, :coalesce, :ids, :tenants, :types, :inputs, :metas, :bodies, :priority, :delays, :run_at, :max_retries,
  :dedupe_keys, :dedupe_hashes, :correlation_id, :source, :source_ref, :timeout_seconds, :definition_id, :host_id, :server_instance_id,
  :parent_run_id, :type_retries, :start_by, :expirations, :finish_by, :group_id, :limit_by);
