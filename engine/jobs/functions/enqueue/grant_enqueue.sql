-- Lets a login of another application call enqueue and commit_attempt, and nothing else: it becomes a member of <schema>_enqueuer, a role
-- that may look into the schema and call these functions. It has no right to any table. What the login may enqueue is in enqueue_grants;
-- it ends the attempts that it has tokens of. Run by the owner of the tables; secure_tables grants the role its rights again when the
-- functions are replaced. Called by engine/access/grants.py.
create or replace function grant_enqueue(login text) returns void language plpgsql volatile
set search_path from current as $$
declare
  enqueuer constant text := current_schema() || '_enqueuer';
begin
  if not exists (select from pg_roles r where r.rolname = enqueuer) then
    begin
      execute format('create role %I nologin', enqueuer);
    exception
      when duplicate_object or unique_violation then null;  -- another database of this server did it at the same time
    end;
  end if;
  perform secure_enqueue();
  execute format('grant %I to %I', enqueuer, login);
end $$;
