-- The columns of an entity as one object, without those that change without an event; null where it does not exist. Of a workflow,
-- its newest version, with the digest of its document: every version is kept in the table. Called by audit/changes.py, before and after
-- an edit, under the caller's role.
create or replace function entity_values(p_kind text, p_id text, p_tenant uuid) returns jsonb language plpgsql stable
set search_path from current set timezone = 'UTC' set bytea_output = 'hex' as $$
declare
  compared record;
  found jsonb;
begin
  if p_kind = 'workflow' then
    return (
      select jsonb_build_object('version', w.version, 'kind', w.kind, 'description', w.description, 'is_enabled', w.is_enabled,
        'document_sha256', encode(sha256(convert_to(w.document::text, 'UTF8')), 'hex'))
      from workflows w
      where w.key = p_id and w.tenant_id is not distinct from p_tenant
      order by w.version desc limit 1);
  end if;
  select * into strict compared from state_kinds() k where k.kind = p_kind;
  execute format('select to_jsonb(t) - (%s)::text[] from %I t where %s', compared.changing, compared.source, compared.named_by)
  into found using p_id, p_tenant;
  return found;
end $$;
