-- Takes the right to call enqueue away from a login that has no grant left. Run by the owner of the tables. Called by engine/access/grants.py.
create or replace function revoke_enqueue(login text) returns void language plpgsql volatile
set search_path from current as $$
declare
  enqueuer constant text := current_schema() || '_enqueuer';
begin
  if exists (
    select from pg_auth_members m join pg_roles granted on granted.oid = m.roleid join pg_roles member on member.oid = m.member
    where granted.rolname = enqueuer and member.rolname = revoke_enqueue.login
  ) and not exists (select from enqueue_grants g where g.login = revoke_enqueue.login) then
    execute format('revoke %I from %I', enqueuer, login);
  end if;
end $$;
