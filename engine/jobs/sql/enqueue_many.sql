-- nothing -> queued, for any number of jobs: tenant check, dedupe, insert, JOB_CREATED and the wake-up.
-- Returns only the jobs that already existed under an active dedupe key. SQL, because a function does it.
select nth, id
from atlas.enqueue_many(
  :actor_type, :actor_id, :coalesce, :ids, :tenants, :types, :inputs, :metas, :bodies, :priorities, :delays, :run_ats, :max_retries,
  :dedupe_keys, :dedupe_hashes, :correlations, :sources, :source_refs, :timeouts, :definitions, :hosts, :instances, :parent_runs,
  :type_retries, :start_bys, :expirations, :finish_bys, :groups, :limit_by);
