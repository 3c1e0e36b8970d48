-- The digests of what grants power or decides, as an event of it holds them: of one entity, or of all of a kind. The versions of
-- a workflow are one entity; one in code is part of it only while it is disabled, since its programs register it without an event.
-- Columns in p_without are left out. Called by state_digests and had_state.
create or replace function state_digests_without(p_kind text, p_id text, p_tenant uuid, p_without text[])
returns table (entity_id text, tenant_id uuid, created_at timestamptz, digest text) language plpgsql stable
set search_path from current set timezone = 'UTC' set bytea_output = 'hex' as $$
declare
  source record;
begin
  if p_kind = 'workflow' then
    return query
    select w.key, w.tenant_id, max(w.created_at),
      encode(sha256(convert_to(jsonb_agg(
        case w.kind when 'code' then '{"code": "disabled"}' else to_jsonb(w) - '{last_seen_at,build}'::text[] - p_without end order by w.version)::text, 'UTF8')), 'hex')
    from workflows w
    where (w.kind = 'declared' or not w.is_enabled)
      and (p_id is null or (w.key = p_id and w.tenant_id is not distinct from p_tenant))
    group by w.key, w.tenant_id;
    return;
  end if;
  select k.name, k.tenant, k.changing into strict source
  from (values
    ('tenant', 'tenants', 't.id', '{updated_at}'),
    ('token', 'api_tokens', 't.tenant_id', '{last_used_at}'),
    ('session', 'sessions', 'null::uuid', '{last_seen_at}'),
    ('approval', 'approvals', 't.tenant_id', '{}'),
    ('policy_rule', 'policy_rules', 't.tenant_id', '{updated_at}'),
    ('definition', 'job_definitions', 'null::uuid', '{updated_at}'),
    ('trigger', 'job_triggers', 't.tenant_id', '{last_fire_at,next_fire_at,active_since,last_error,outages,updated_at}'),
    ('host', 'hosts', 't.tenant_id', '{last_seen_at,agent_version,updated_at}'),
    ('server_instance', 'server_instances', 't.tenant_id', '{updated_at}'),
    ('webhook', 'webhooks', 't.tenant_id', '{failing_since,last_error,updated_at}'),
    ('inbound_hook', 'inbound_hooks', 't.tenant_id', '{}')
  ) k(kind, name, tenant, changing)
  where k.kind = p_kind;
  return query execute format(
    'select t.id::text, %s, t.created_at, state_digest(t, %L) from %I t where $1 is null or t.id = $1::uuid',
    source.tenant, source.changing::text[] || p_without, source.name) using p_id;
end $$;
