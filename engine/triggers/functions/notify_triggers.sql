-- Notifies the leader that schedules changed; firing, which moves only the times, does not.
create or replace function notify_triggers() returns trigger language plpgsql
set search_path from current as $$
begin
  perform pg_notify(current_schema() || '_triggers', '');
  return null;
end $$;

select secure_trigger('job_triggers', 'job_triggers_changed',
  'after insert or delete or update of is_enabled, trigger_type, cron_expr, timezone
  on job_triggers for each statement execute function notify_triggers()');
