-- Runs, newest first by their time-ordered ids. Without a tenant it looks across all (operators).
-- SQL, because it reads a view, of a run and its job row.
select id, tenant_id, workflow, version, status, requested_by, parent_run_id, forked_from, created_at, input, output, error,
  attempt_count, claimed_by, correlation_id, source, source_ref, wakes_at, cancel_requested_at, finished_at
from atlas.workflow_run_states
where (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:id::uuid is null or id = :id)
  and (:workflow::text is null or workflow = :workflow)
  and (:status::text is null or status = :status)
  and (:parent_run_id::uuid is null or parent_run_id = :parent_run_id)
  and (:before::uuid is null or id < :before)
order by id desc
limit :limit;
