-- Triggers, oldest first. Without a tenant it looks across all (operators).
select t.id, t.tenant_id, t.label, t.is_enabled, t.trigger_type::text as trigger_type, t.event_name, t.cron_expr, t.timezone,
  t.definition_key, t.job_type, t.workflow, t.payload_template, t.dedupe_window_seconds, t.misfire::text as misfire,
  coalesce(t.timezone, n.timezone) as zone, t.last_fire_at, t.next_fire_at, t.last_error, t.created_by, t.edited_by, t.created_at, t.updated_at,
  t.declared_by,
  case when t.workflow is not null
       then exists (select from atlas.workflows w where w.key = t.workflow and (w.tenant_id is null or w.tenant_id = t.tenant_id))
       else exists (select from atlas.job_types y where y.key = coalesce(t.job_type, t.definition_key)) end as target_exists
from atlas.job_triggers t
join atlas.tenants n on n.id = t.tenant_id
where (:tenant_id::uuid is null or t.tenant_id = :tenant_id)
  and (:after::uuid is null or t.id > :after)
  and t.deleted_at is null
order by t.id
limit :limit;
