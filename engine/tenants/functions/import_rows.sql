-- Rows that came with a tenant -> rows of this installation, all of one table; returns how many. A row that is not the tenant's is refused.
-- p_shift is added to the numbers of events, and to where runs have read them up to: they then stand before all that are published here.
-- Columns that the file does not have get their defaults. Called by engine/tenants/move_import.py.
create or replace function import_rows(p_tenant uuid, p_table text, p_columns text[], p_rows json, p_shift bigint) returns int language plpgsql volatile
set search_path from current set timezone = 'UTC' as $$
declare
  names text;
  vals text;
  made int;
  strangers int;
begin
  if p_table not in ('tenants', 'audit_private') and not exists (select from tenant_tables() t where t.name = p_table) then
    raise exception '% is not a table of a tenant', p_table using errcode = 'invalid_parameter_value';
  end if;
  select string_agg(quote_ident(a.attname), ', ' order by a.attnum),
    string_agg(case when a.attname in ('seq', 'event_cursor', 'events_from') then format('r.%I + $2', a.attname) else format('r.%I', a.attname) end,
      ', ' order by a.attnum)
  into names, vals
  from pg_attribute a where a.attrelid = p_table::regclass and a.attnum > 0 and not a.attisdropped and a.attname = any (p_columns)
    -- Pauses are numbered here.
    and not (p_table = 'pauses' and a.attname = 'number');
  execute format('insert into %1$I (%2$s) overriding system value select %3$s from json_populate_recordset(null::%1$I, $1) r where $2 is not null',
    p_table, names, vals) using p_rows, p_shift;
  get diagnostics made = row_count;
  execute format(case
      when p_table = 'tenants' then 'select count(*) from json_populate_recordset(null::%1$I, $1) r where r.id is distinct from $2'
      when exists (select from tenant_tables() t where t.name = p_table and t.is_by_job)
      then 'select count(*) from json_populate_recordset(null::%1$I, $1) r where not exists (select from jobs j where j.id = r.job_id and j.tenant_id = $2)'
      else 'select count(*) from json_populate_recordset(null::%1$I, $1) r where r.tenant_id is distinct from $2' end, p_table)
    into strangers using p_rows, p_tenant;
  if strangers > 0 then
    raise exception '% rows of % are not the tenant''s', strangers, p_table using errcode = 'AT422', column = p_table;
  end if;
  return made;
end $$;
