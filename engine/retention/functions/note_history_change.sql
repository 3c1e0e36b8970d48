-- Notes that a transaction changed a part of history, once for each part: a backup reuses the dump of a part with the same notes. Jobs are moved into a part by one transaction
-- at a time, whose note replaces those before it; all others add one, and wait for nobody. A note says whether the numbers that are stored of the part still hold: after a move, which counts, a return,
-- whose note has what it took out (see return_part), and a change of other tables or columns than those that are counted. Jobs that come otherwise than by a move that
-- counts them (in a transaction that began before this version) are measured here, for lists. It runs as the owner of the tables. Called by triggers of the tables of history.
create or replace function note_history_change() returns trigger language plpgsql volatile security definer
set search_path from current as $$
declare
  changed constant text := substring(tg_table_name from '_history_(.*)$');
  side constant text := substring(tg_table_name from '^(.*)_history_');
  is_moving constant boolean := tg_op = 'INSERT' and coalesce(current_setting('atlas.is_counting', true), '') = 'on';
  is_exact boolean := is_moving or side not in ('jobs', 'job_attempts', 'workflow_steps');
  is_recounted boolean;
  returned jsonb;
begin
  -- Only the owner of the tables knows the id of a note.
  if tg_op = 'DELETE' and exists (
    select from history_changes c
    where c.id = nullif(current_setting('atlas.history_note', true), '')::uuid and c.part = changed and c.transaction_id = (pg_current_xact_id()::text)::bigint)
  then
    return null;
  end if;
  if tg_op = 'UPDATE' then
    if side = 'jobs' then
      is_exact := (old.id, old.tenant_id, old.status) = (new.id, new.tenant_id, new.status);
    elsif side = 'job_attempts' then
      is_exact := old.job_id = new.job_id;
    elsif side = 'workflow_steps' then
      is_exact := (old.run_id, old.tenant_id) = (new.run_id, new.tenant_id);
    end if;
  end if;
  if not exists (
    select from history_changes c where c.part = changed and c.transaction_id = (pg_current_xact_id()::text)::bigint and c.is_move = is_exact)
  then
    if is_moving then
      with replaced as (delete from history_changes c where c.part = changed returning c.is_move, c.returned)
      select coalesce(bool_or(not r.is_move), false), jsonb_agg(r.returned) filter (where r.returned is not null) into is_recounted, returned
      from replaced r;
      if is_recounted then
        update history_contents h set jobs = null where h.part = changed;  -- a drop counts them
      elsif returned is not null then
        perform subtract_returned(changed, returned);
      end if;
    end if;
    insert into history_changes (part, is_move) values (changed, is_exact);
  end if;
  if tg_op = 'INSERT' and side = 'jobs' and not is_moving then
    perform measure_history_part(changed);
  end if;
  return null;
end $$;
