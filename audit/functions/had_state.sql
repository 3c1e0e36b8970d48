-- Whether an entity had this digest before columns were added to its table, and has nothing but their defaults in them. An event
-- from before an upgrade has the digest of the columns of that time; new columns are the last ones of a table.
-- Called by audit/verification/sql/crosscheck_state.sql for entities that are not as their last event left them.
create or replace function had_state(p_kind text, p_id text, p_tenant uuid, p_digest text) returns boolean language plpgsql stable
set search_path from current as $$
declare
  compared record;
  added record;
  added_columns text[] := '{}';
  is_default boolean;
begin
  select * into strict compared from state_kinds() k where k.kind = p_kind;
  for added in
    select a.attname, coalesce(pg_get_expr(d.adbin, d.adrelid), 'null') as value
    from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = compared.source::regclass and a.attnum > 0 and not a.attisdropped
    order by a.attnum desc
  loop
    execute format('select bool_and(t.%I is not distinct from %s) from %I t where %s',
      added.attname, added.value, compared.source, compared.named_by)
    into is_default using p_id, p_tenant;
    exit when is_default is not true;
    added_columns := added_columns || added.attname::text;
    if exists (select from state_digests_without(p_kind, p_id, p_tenant, added_columns) d where d.digest = p_digest) then
      return true;
    end if;
  end loop;
  return false;
end $$;
