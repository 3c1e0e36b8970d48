-- The audit row of a change of an effect, among the events of its job. Called by begin_effect, end_effect, ask_about_effect and settle_effect.
create or replace function record_effect(
  p_effect effects, p_action text, p_level text, p_actor_type text, p_actor_id text, p_message text, p_meta jsonb
) returns void language plpgsql volatile
set search_path from current as $$
begin
  insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  select p_effect.tenant_id, p_actor_type::actor_type, p_actor_id, p_level::audit_level, p_action, 'job', p_effect.job_id, p_message, m.meta,
    audit_body(p_effect.tenant_id, p_actor_type, p_actor_id, p_level, p_action, 'job', p_effect.job_id::text, p_message, m.meta)
  from (select jsonb_strip_nulls(p_meta || jsonb_build_object('effect', p_effect.id, 'effect_state', p_effect.state, 'name', p_effect.name,
    'key', p_effect.key, 'step', nullif(p_effect.step, ''), 'attempt', p_effect.attempt_no, 'reference', p_effect.reference)) as meta) m;
end $$;
