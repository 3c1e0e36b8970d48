-- nothing -> a trigger.
insert into atlas.job_triggers (id, tenant_id, label, is_enabled, trigger_type, event_name, cron_expr, timezone, definition_key, job_type,
  workflow, payload_template, dedupe_window_seconds, misfire, next_fire_at, created_by, declared_by)
values (:id, :tenant_id, :label, :is_enabled, :trigger_type::text::atlas.trigger_type, :event_name, :cron_expr, :timezone, :definition_key,
  :job_type, :workflow, :payload_template::text::jsonb, :dedupe_window_seconds, :misfire::text::atlas.misfire_policy, :next_fire_at,
  :created_by, :declared_by);
