-- What runs begin to wait for. A step that is tried again has its row already. SQL, because it is a batch.
insert into atlas.workflow_steps as s (run_id, branch, position, tenant_id, name, kind, status, attempts, wake_at, child_id, approval_id,
  event_cursor, event_name, event_match, input, error)
select u.run_id, u.branch, u.position, u.tenant_id, u.name, u.kind::atlas.step_kind, u.status::atlas.step_status, u.attempts,
  coalesce(u.wake_at, clock_timestamp() + u.wake_after * interval '1 second'), u.child_id, u.approval_id,
  case when u.event_name is not null then (select r.events_from from only atlas.workflow_runs r where r.id = u.run_id) end,
  u.event_name, u.event_match, u.input, u.error
from unnest(
  :runs::uuid[], :branches::text[], :positions::int[], :tenants::uuid[], :names::text[], :kinds::text[], :statuses::text[],
  :attempts::int[], :wake_ats::timestamptz[], :wake_afters::float8[], :children::uuid[], :approvals::uuid[], :event_names::text[],
  :event_matches::jsonb[], :inputs::jsonb[], :errors::jsonb[])
  u(run_id, branch, position, tenant_id, name, kind, status, attempts, wake_at, wake_after, child_id, approval_id, event_name,
    event_match, input, error)
on conflict (run_id, branch, position) do update
set status   = excluded.status,
    attempts = excluded.attempts,
    wake_at  = excluded.wake_at,
    -- a child that is started once its start was approved
    child_id = coalesce(excluded.child_id, s.child_id),
    error    = excluded.error;
