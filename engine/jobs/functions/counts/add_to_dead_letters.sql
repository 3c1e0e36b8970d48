-- Counts the dead letters that these audit rows are about by their causes. Called by meter_usage, which holds the lock.
create or replace function add_to_dead_letters(p_rows audit_log[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  perform count_dead_letters(array(
    select r.entity_id::uuid from unnest(p_rows) r
    where r.entity_type = 'job'
      and (r.action = 'JOB_IMPORTED' or job_event_kind(r.action, r.level, r.meta) in ('dead_lettered', 'reopened', 'deleted', 'discarded'))));
end $$;
