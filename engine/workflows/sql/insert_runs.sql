-- The runs that newly enqueued ENGINE_RUN jobs carry. Same transaction, same id. SQL, because it is a batch.
insert into atlas.workflow_runs (id, tenant_id, workflow, version, workflow_id, requested_by, parent_run_id, forked_from, events_from)
select u.id, u.tenant_id, u.workflow, u.version, u.workflow_id, u.requested_by, u.parent_run_id, u.forked_from,
  coalesce(u.events_from, atlas.event_cursor())
from unnest(
  :ids::uuid[], :tenants::uuid[], :workflows::text[], :versions::int[], :workflow_ids::uuid[], :requesters::text[], :parents::uuid[],
  :forked::uuid[], :events_from::bigint[])
  u(id, tenant_id, workflow, version, workflow_id, requested_by, parent_run_id, forked_from, events_from);
