-- The role of logins that may enqueue, named after the schema. It is made with the others, while the login of the installation may
-- create roles: `atlas grant enqueue` then works after that right was taken away. Where it cannot be made, grant_enqueue tries again.
do $$
declare
  enqueuer constant text := current_schema() || '_enqueuer';
begin
  execute format('create role %I nologin', enqueuer);
  -- From version 16 on, who creates a role may grant it.
  if current_setting('server_version_num')::int < 160000 then
    execute format('grant %I to current_user with admin option', enqueuer);
  end if;
exception
  when duplicate_object or unique_violation or insufficient_privilege then null;
end $$;
