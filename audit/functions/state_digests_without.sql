-- The digests of what grants power or decides, as an event of it holds them: of one entity, or of all of a kind. The versions of
-- a workflow are one entity; one in code is part of it only while it is disabled, since its programs register it without an event.
-- Columns in p_without are left out. Called by state_digests and had_state.
create or replace function state_digests_without(p_kind text, p_id text, p_tenant uuid, p_without text[])
returns table (entity_id text, tenant_id uuid, created_at timestamptz, digest text) language plpgsql stable
set search_path from current set timezone = 'UTC' set bytea_output = 'hex' as $$
declare
  compared record;
begin
  if p_kind = 'workflow' then
    return query
    select w.key, w.tenant_id, max(w.created_at),
      encode(sha256(convert_to(jsonb_agg(
        case w.kind when 'code' then '{"code": "disabled"}' else to_jsonb(w) - '{last_seen_at,build,updated_at}'::text[] - p_without end order by w.version)::text, 'UTF8')), 'hex')
    from workflows w
    where (w.kind = 'declared' or not w.is_enabled)
      and (p_id is null or (w.key = p_id and w.tenant_id is not distinct from p_tenant))
    group by w.key, w.tenant_id;
    return;
  end if;
  select * into strict compared from state_kinds() k where k.kind = p_kind;
  return query execute format(
    'select %s::text, %s, %s, state_digest(t, (%s)::text[] || $3) from %I t where $1 is null or (%s)',
    compared.entity, compared.tenant, compared.since, compared.changing, compared.source, compared.named_by)
  using p_id, p_tenant, p_without;
end $$;
