-- The number of the last event: later ones have a greater one. The default of what waits for events.
create or replace function event_cursor() returns bigint language sql volatile
set search_path from current as $$
  select case when is_called then last_value else 0 end from events_seq_seq
$$;

do $$
declare
  one regclass;
begin
  foreach one in array array['intents', 'workflow_runs']::regclass[] loop
    -- Only where it differs: it waits for everyone who uses the table, and they wait for it.
    if not exists (
      select from pg_attrdef d
      join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
      where d.adrelid = one and a.attname = 'events_from' and pg_get_expr(d.adbin, d.adrelid) = 'event_cursor()')
    then
      execute format('alter table %s alter column events_from set default event_cursor()', one);
    end if;
  end loop;
end $$;
