-- Notes that a transaction changed a part of history, once for each part: a backup reuses the dump of a part with the same notes. Jobs are moved into a part by one transaction
-- at a time, whose note replaces those before it; all others add one, and wait for nobody. Jobs that come otherwise than by a move that
-- counts them (in a transaction that began before this version) are measured here, for lists. It runs as the owner of the tables. Called by triggers of the tables of history.
create or replace function note_history_change() returns trigger language plpgsql volatile security definer
set search_path from current as $$
declare
  changed constant text := substring(tg_table_name from '_history_(.*)$');
  is_counted constant boolean := tg_op = 'INSERT' and coalesce(current_setting('atlas.is_counting', true), '') = 'on';
begin
  if not exists (
    select from history_changes c where c.part = changed and c.transaction_id = (pg_current_xact_id()::text)::bigint and c.is_move = is_counted)
  then
    if is_counted then
      if exists (select from history_changes c where c.part = changed and not c.is_move) then
        update history_contents h set jobs = null where h.part = changed;  -- a drop counts them
      end if;
      delete from history_changes c where c.part = changed;
    end if;
    insert into history_changes (part, is_move) values (changed, is_counted);
  end if;
  if tg_op = 'INSERT' and not is_counted and tg_table_name like 'jobs\_history\_%' then
    perform measure_history_part(changed);
  end if;
  return null;
end $$;
