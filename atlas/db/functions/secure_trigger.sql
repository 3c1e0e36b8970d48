-- Creates a trigger of a table by these terms, `after … on … execute function …`, or again where it is not as it was created or was
-- disabled; one that `p_always` fires does so in replica mode too. One that is as it should be is left alone, because creating it waits
-- for everyone who writes the table, and they wait for it. Called by the files of the functions that triggers run.
create or replace function secure_trigger(p_table text, p_name text, p_terms text, p_always boolean default false)
returns void language plpgsql volatile
set search_path from current as $$
declare
  mark text;
begin
  if exists (
    select from pg_trigger t
    where t.tgrelid = p_table::regclass
      and t.tgname = p_name
      and t.tgenabled = case when p_always then 'A' else 'O' end
      and obj_description(t.oid, 'pg_trigger') = md5(p_terms || pg_get_triggerdef(t.oid)))
  then
    return;
  end if;
  execute format('create or replace trigger %I %s', p_name, p_terms);
  execute format('alter table %I enable %s trigger %I', p_table, case when p_always then 'always' end, p_name);
  select md5(p_terms || pg_get_triggerdef(t.oid)) into mark
  from pg_trigger t where t.tgrelid = p_table::regclass and t.tgname = p_name;
  execute format('comment on trigger %I on %I is %L', p_name, p_table, mark);
end $$;
