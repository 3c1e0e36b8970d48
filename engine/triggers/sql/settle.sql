-- The outcome of firings on their triggers, and an audit event for each that fired or failed.
-- A trigger's last error is that of its last firing; one that worked clears it. The open due time of a schedule that
-- could not be computed stays until it is computed. SQL, because it writes to two tables in one statement.
with recorded as (
  select * from unnest(
    :triggers::uuid[], :tenants::uuid[], :actions::text[], :levels::text[], :messages::text[], :metas::jsonb[])
    u(trigger_id, tenant_id, action, level, message, meta)
),
written as (
  insert into atlas.audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  select t.tenant_id, :actor_type::text::atlas.actor_type, :actor_id, t.level::atlas.audit_level, t.action, 'trigger', t.trigger_id, t.message,
    t.meta, atlas.audit_body(t.tenant_id, :actor_type::text, :actor_id, t.level, t.action, 'trigger', t.trigger_id::text, t.message,
      t.meta)
  from recorded t
)
update atlas.job_triggers j
set last_fire_at = coalesce(u.fired_at, j.last_fire_at),
    last_error   = case when j.last_error ? 'open_since' then j.last_error else u.error end
from unnest(:changed::uuid[], :fired_ats::timestamptz[], :last_errors::jsonb[]) u(id, fired_at, error)
where j.id = u.id;
