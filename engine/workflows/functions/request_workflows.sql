-- nothing -> draft, with INTENT_REQUESTED and a hint to the engine. Returns the intents, or none of them where the tenant does not
-- exist or is being removed, or a workflow is not known: `unchecked` says which may be unknown.
-- Called by engine/workflows/intents.py and fire_triggers.
create or replace function request_workflows(p_intents jsonb, p_actor_type text) returns setof uuid language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set jit = off as $$
begin
  return query
  with asked as materialized (
    select *
    from jsonb_to_recordset(p_intents)
      x(id uuid, tenant_id uuid, workflow text, input jsonb, spend_cents int, priority int, source text, source_ref text,
        correlation_id text, forked_from uuid, forked_step text, unchecked boolean, requested_by text, meta jsonb)
  ),
  made as (
    insert into intents (id, tenant_id, workflow, input, input_hash, spend_cents, priority, source, source_ref, correlation_id,
      requested_by, forked_from, forked_step, events_from)
    select x.id, x.tenant_id, x.workflow, x.input, sha256(convert_to(x.input::text, 'UTF8')), x.spend_cents, x.priority,
      x.source::job_source, x.source_ref, x.correlation_id, x.requested_by, x.forked_from, x.forked_step,
      coalesce((select r.events_from from workflow_runs r where r.id = x.forked_from), event_cursor())
    from asked x
    join tenants t on t.id = x.tenant_id and t.removing_at is null and t.moving_at is null
    where not exists (
      select from asked y
      where not y.unchecked
        and not exists (
          select from workflows w
          where w.key = y.workflow and (w.tenant_id is null or w.tenant_id = y.tenant_id)))
    returning intents.id
  ),
  written as (
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    select x.tenant_id, p_actor_type::actor_type, x.requested_by, 'INTENT_REQUESTED', 'intent', x.id, f.meta,
      audit_body(x.tenant_id, p_actor_type, x.requested_by, 'info', 'INTENT_REQUESTED', 'intent', x.id::text, '', f.meta)
    from made m
    join asked x on x.id = m.id
    cross join lateral (select jsonb_build_object('workflow', x.workflow) || x.meta as meta) f
  )
  select m.id from made m;
  perform pg_notify(current_schema() || '_intents', '');
end $$;
