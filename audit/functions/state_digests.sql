-- The digests of what grants power or decides, as an event of it holds them: of one entity, or of all of a kind.
-- Called by audit/sql/state_of.sql, audit/verification/sql/crosscheck_state.sql and settle_import.
create or replace function state_digests(p_kind text, p_id text, p_tenant uuid)
returns table (entity_id text, tenant_id uuid, created_at timestamptz, digest text) language plpgsql stable
set search_path from current as $$
begin
  return query select * from state_digests_without(p_kind, p_id, p_tenant, '{}');
end $$;
