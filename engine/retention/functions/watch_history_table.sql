-- Lets every change of a table of history be noted, see note_history_change. Statements about `jobs` change it too, so updates and deletes are noted by the row. Called by
-- add_history_part, and here for the tables that an earlier version created; what they hold is stored here too, for lists.
create or replace function watch_history_table(p_table text) returns void language plpgsql volatile
set search_path from current as $$
begin
  perform secure_trigger(p_table, 'history_filled',
    format('after insert or truncate on %I for each statement execute function note_history_change()', p_table));
  perform secure_trigger(p_table, 'history_changed',
    format('after update or delete on %I for each row execute function note_history_change()', p_table));
end $$;

select watch_history_table(h.name)
from (
  select c.relname::text as name from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  where c.relnamespace = current_schema()::text::regnamespace and c.relname ~ '_history_(kept|[0-9]+)_[0-9]{8}$'
  order by c.relname) h;

insert into history_changes (part)
select distinct substring(h.name from '_history_(.*)$') from history_parts() h
where not exists (select from history_changes c where c.part = substring(h.name from '_history_(.*)$'));

do $$
declare
  part text;
begin
  for part in
    select substring(h.name from '_history_(.*)$') from history_parts() h
    except (select b.part from history_bounds b where b.min_id is not null intersect select h.part from history_contents h)
  loop
    perform measure_history_part(part);
  end loop;
end $$;
