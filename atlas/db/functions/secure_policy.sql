-- Creates a policy of a table by these terms, or again where it is not as it was created: `as … for … to … using …`. One that is as
-- it should be is left alone, because creating it waits for everyone who uses the table, and they wait for it. Called by secure_tables.
create or replace function secure_policy(p_table text, p_name text, p_terms text) returns void language plpgsql volatile
set search_path from current
set client_min_messages = warning as $$
declare
  made oid;
begin
  if exists (
    select from pg_policy p
    where p.polrelid = p_table::regclass
      and p.polname = p_name
      and obj_description(p.oid, 'pg_policy') = policy_mark(p.oid, p_terms))
  then
    return;
  end if;
  execute format('drop policy if exists %I on %I', p_name, p_table);
  execute format('create policy %I on %I %s', p_name, p_table, p_terms);
  select p.oid into made from pg_policy p where p.polrelid = p_table::regclass and p.polname = p_name;
  execute format('comment on policy %I on %I is %L', p_name, p_table, policy_mark(made, p_terms));
end $$;
