-- Workers hear immediately that the allow-list changed; those that miss it look every few seconds.
create or replace function notify_definitions() returns trigger language plpgsql
set search_path from current as $$
begin
  perform pg_notify(current_schema() || '_definitions', '');
  return null;
end $$;

select secure_trigger('job_definitions', 'job_definitions_changed',
  'after insert or update or delete on job_definitions
  for each statement execute function notify_definitions()');
