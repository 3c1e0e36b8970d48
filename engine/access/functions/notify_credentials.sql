-- Tells every process of the API that a credential ended, so that none keeps it in its cache. Whoever ends one: a statement, a command,
-- the removal of a host or of a tenant. A notification that is lost costs the seconds that a credential is cached for.
create or replace function notify_credentials() returns trigger language plpgsql
set search_path from current as $$
begin
  perform pg_notify(current_schema() || '_credentials', '');
  return null;
end $$;

select secure_trigger('api_tokens', 'api_tokens_ended',
  'after update of revoked_at or delete on api_tokens for each statement execute function notify_credentials()');
select secure_trigger('sessions', 'sessions_ended',
  'after update of ended_at on sessions for each statement execute function notify_credentials()');
select secure_trigger('inbound_hooks', 'inbound_hooks_removed',
  'after delete on inbound_hooks for each statement execute function notify_credentials()');
