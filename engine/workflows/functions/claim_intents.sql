-- draft -> validating, and those that an engine began and never ended. Returns null while the gate is closed or the engine is off.
-- Writes when the engine last looked, which distinguishes a silent engine from an idle one.
-- p_since: only drafts that were created since then, so that the index entries of claimed ones are not walked over again and again while a
-- transaction holds the xmin horizon; null: all.
-- Locks: gate, intents (skipping locked ones). Called by engine/workflows/intents.py.
create or replace function claim_intents(p_engine text, p_limit int, p_stuck float8, p_since timestamptz default null) returns uuid[] language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  picked uuid[];
  taken uuid[];
begin
  if not may_claim(null) then
    return null;
  end if;
  if exists (select from system_state where key = 'atlas_online' and value->>'engine_enabled' = 'false') then
    return null;
  end if;
  -- At most once a second, and never waiting for another engine that writes it.
  if not exists (select from system_state where key = 'engine_tick' and updated_at > clock_timestamp() - interval '1 second') then
    insert into system_state (key, value, updated_by) values ('engine_tick', '{}', p_engine) on conflict (key) do nothing;
    update system_state
    set value = jsonb_build_object('last_tick_at', clock_timestamp(), 'by', p_engine), updated_at = clock_timestamp(),
        updated_by = p_engine
    where key = (select key from system_state where key = 'engine_tick' for update skip locked);
  end if;
  picked := array(
    select id from intents
    where status = 'draft' and tenant_id <> all (moving_tenants()) and created_at >= coalesce(p_since, '-infinity')
    order by created_at limit p_limit for update skip locked);
  picked := picked || array(
    select id from intents
    where p_since is null and status = 'validating' and tenant_id <> all (moving_tenants()) and claimed_at < clock_timestamp() - p_stuck * interval '1 second'
    order by claimed_at limit p_limit for update skip locked);
  with claimed as (
    update intents set status = 'validating', claimed_at = clock_timestamp(), updated_at = clock_timestamp()
    where id = any (picked) and status in ('draft', 'validating')
    returning id, tenant_id, workflow),
  events as (
    select c.id, c.tenant_id, jsonb_build_object('workflow', c.workflow) as meta from claimed c),
  aud as (
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    select e.tenant_id, 'system', p_engine, 'ENGINE_CLAIMED_INTENT', 'intent', e.id, e.meta,
      audit_body(e.tenant_id, 'system', p_engine, 'info', 'ENGINE_CLAIMED_INTENT', 'intent', e.id::text, '', e.meta)
    from events e)
  select array_agg(id) into taken from claimed;
  return coalesce(taken, '{}');
end $$;
