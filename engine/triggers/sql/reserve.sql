-- nothing -> firings. One whose due time or event has fired before is not inserted, and not returned. SQL, because it is a batch.
insert into atlas.trigger_fires (id, trigger_id, tenant_id, due_at, event_id, fired_at, result, job_id, payload_hash, error, created_by)
select u.id, u.trigger_id, u.tenant_id, u.due_at, u.event_id, :now, u.result::atlas.fire_result, u.job_id, u.payload_hash, u.error,
  :created_by
from unnest(
  :ids::uuid[], :triggers::uuid[], :tenants::uuid[], :due_ats::timestamptz[], :events::uuid[], :results::text[], :jobs::uuid[],
  :hashes::bytea[], :errors::text[])
  u(id, trigger_id, tenant_id, due_at, event_id, result, job_id, payload_hash, error)
on conflict do nothing
returning id;
