-- The number of the last event: later ones have a greater one. The default of what waits for events.
create or replace function event_cursor() returns bigint language sql volatile
set search_path from current as $$
  select case when is_called then last_value else 0 end from events_seq_seq
$$;

alter table intents alter column events_from set default event_cursor();
alter table workflow_runs alter column events_from set default event_cursor();
