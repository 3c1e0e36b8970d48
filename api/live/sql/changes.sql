-- Audit rows committed between two snapshots: of each tenant and action the newest, with how many there were, and the job each
-- is about; a job moves into history hours after its last event. Reads across tenants: every room then gets its own. SQL, because it has a window function over a snapshot's rows.
with window_rows as materialized (
  select w.xid, w.id, w.tenant_id, w.action, w.entity_type, w.entity_id, w.actor_id, w.message,
    coalesce(w.meta->>'run_id', w.meta->>'intent_id') as run_id, w.meta->>'job_type' as job_type,
    case when w.entity_type = 'system_state' then (w.meta->>'since')::timestamptz end as since,
    case when w.entity_type = 'system_state' then (w.meta->>'until')::timestamptz end as until
  from atlas.audit_window(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, '0', 0, null, null, null, :most::int) w
  where w.action = any (:actions::text[])
),
counted as (
  select *, count(*) over (partition by tenant_id, action) as of_kind,
    row_number() over (partition by tenant_id, action order by xid desc, id desc) as nth
  from window_rows
)
select c.tenant_id, c.action, c.entity_type, c.entity_id, c.actor_id, c.message, c.run_id, c.since, c.until, c.of_kind, j.id as job_id,
  coalesce(j.job_type, c.job_type) as job_type, atlas.shown_status(j) as status, j.correlation_id,
  nullif(j.attempt_count, 0) as attempt_count, j.server_instance_id, j.error->>'message' as error_message,
  -- What was canceled before it began took no time.
  case when j.finished_at is not null and j.started_at is not null then least(2147483647, extract(epoch from j.finished_at - j.started_at) * 1000) end::int
    as duration_ms
from counted c
-- Within a case: the names of other things are no ids, and the planner may try the join first.
left join only atlas.jobs j on j.id = case when c.entity_type = 'job' then c.entity_id::uuid end
where c.nth <= :max_each
order by c.xid, c.id;
