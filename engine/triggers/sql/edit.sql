-- a trigger -> the same with new fields. The caller has locked its row.
-- SQL, because what begins anew begins at the time of the database's clock.
update atlas.job_triggers
set label                 = :label,
    is_enabled            = :is_enabled,
    trigger_type          = :trigger_type::text::atlas.trigger_type,
    event_name            = :event_name,
    cron_expr             = :cron_expr,
    timezone              = :timezone,
    definition_key        = :definition_key,
    job_type              = :job_type,
    workflow              = :workflow,
    payload_template      = :payload_template::text::jsonb,
    dedupe_window_seconds = :dedupe_window_seconds,
    misfire               = :misfire::text::atlas.misfire_policy,
    next_fire_at          = :next_fire_at,
    active_since          = case when :begins_anew::boolean then clock_timestamp() else active_since end,
    last_error            = null,
    edited_by             = :edited_by,
    updated_at            = clock_timestamp()
where id = :id
  and deleted_at is null;
