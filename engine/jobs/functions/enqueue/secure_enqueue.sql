-- Who may call enqueue and commit_attempt, which run as the owner of the tables and so see every tenant: Atlas's programs, and the logins
-- that grant_enqueue named. What such a login enqueues, its grants say; which attempt it ends, the token of the attempt says. A request of
-- a tenant may call neither. Called by secure_tables and grant_enqueue.
create or replace function secure_enqueue() returns void language plpgsql volatile
set search_path from current as $$
declare
  here constant text := current_schema();
  enqueuer constant text := here || '_enqueuer';
  verb text;
begin
  if exists (select from pg_roles r where r.rolname = enqueuer) then
    execute format('grant usage on schema %I to %I', here, enqueuer);
  end if;
  for verb in
    select p.oid::regprocedure::text from pg_proc p
    where p.pronamespace = here::regnamespace and p.proname in ('enqueue', 'commit_attempt')
  loop
    execute format('revoke execute on function %s from public', verb);
    if exists (select from pg_roles r where r.rolname = here || '_engine') then
      execute format('grant execute on function %s to %I', verb, here || '_engine');
    end if;
    if exists (select from pg_roles r where r.rolname = enqueuer) then
      execute format('grant execute on function %s to %I', verb, enqueuer);
    end if;
  end loop;
end $$;
