-- Notes that a transaction changed a part of history, once for each part: a backup reuses the dump of a part with the same notes. Jobs are moved into a part by one transaction
-- at a time, whose note replaces those before it; all others add one, and wait for nobody. It runs as the owner of the tables. Called by triggers of the tables of history.
create or replace function note_history_change() returns trigger language plpgsql volatile security definer
set search_path from current as $$
declare
  changed constant text := substring(tg_table_name from '_history_(.*)$');
begin
  if not exists (
    select from history_changes c where c.part = changed and c.transaction_id = (pg_current_xact_id()::text)::bigint)
  then
    if tg_op = 'INSERT' then
      delete from history_changes c where c.part = changed;
    end if;
    insert into history_changes (part) values (changed);
  end if;
  return null;
end $$;
