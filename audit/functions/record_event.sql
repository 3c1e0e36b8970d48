-- Writes one audit row, for functions whose change is one event. Those that change many rows insert theirs in one statement.
create or replace function record_event(
  p_tenant uuid, p_actor_type text, p_actor_id text, p_level text, p_action text, p_entity_type text, p_entity_id text, p_message text,
  p_meta jsonb
) returns void language plpgsql volatile
set search_path from current as $$
begin
  insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  values (p_tenant, p_actor_type::actor_type, p_actor_id, p_level::audit_level, p_action, p_entity_type, p_entity_id, p_message, p_meta,
    audit_body(p_tenant, p_actor_type, p_actor_id, p_level, p_action, p_entity_type, p_entity_id, p_message, p_meta));
end $$;
