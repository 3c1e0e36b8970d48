-- The firings of a trigger, newest first, or so many of them before one. Without a tenant it looks across all (operators).
select id, trigger_id, tenant_id, due_at, event_id, fired_at, result::text as result, job_id, error, created_by
from atlas.trigger_fires
where trigger_id = :trigger_id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:fired_at::timestamptz is null or (fired_at, id) < (:fired_at, :id::uuid))
order by fired_at desc, id desc
limit :limit;
