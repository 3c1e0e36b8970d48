-- running -> ended, for one run. Then its schedule waits for the first multiple of the interval after now (missed intervals are
-- skipped), or is removed if it ran once. A run that was stopped or lost leaves its schedule due, until it was lost too often; and
-- none touches a schedule that was replaced while it ran. What failed, and what is removed, is audited here.
-- Returns what became of the schedule, kept or removed; null where the run had ended before: nothing is changed then.
-- Locks: the run, then its schedule. Called by sweep_recurring and engine/schedules/recurring_runs.py.
create or replace function finish_recurring(p_run uuid, p_outcome text, p_error text) returns text language plpgsql volatile
set search_path from current as $$
declare
  run recurring_runs;
  is_removed boolean := false;
begin
  update recurring_runs r
  set outcome = p_outcome::recurring_outcome, error = p_error, lease_expires_at = null,
      finished_at = case p_outcome when 'lost' then r.lease_expires_at else clock_timestamp() end
  where r.id = p_run and r.finished_at is null
  returning r.* into run;
  if not found then
    return null;
  end if;
  if p_outcome <> 'stopped' and recurring_is_over(run.tenant_id, run.recurring_id, run.due_at) then
    update recurring_jobs s
    set next_run_at = case
          when s.start_at > clock_timestamp() then s.start_at
          else s.start_at + make_interval(secs => s.repeat_seconds
            * (floor(extract(epoch from clock_timestamp() - s.start_at)::float8 / s.repeat_seconds) + 1)) end,
        updated_at = clock_timestamp()
    where s.tenant_id = run.tenant_id and s.id = run.recurring_id and s.run_id = run.id and s.next_run_at = run.due_at
      and s.repeat_seconds > 0;
    delete from recurring_jobs s
    where s.tenant_id = run.tenant_id and s.id = run.recurring_id and s.run_id = run.id and s.next_run_at = run.due_at
      and s.repeat_seconds = 0;
    is_removed := found;
  end if;
  insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  select run.tenant_id, 'system', 'scheduler', e.level::audit_level, e.action, 'recurring', run.recurring_id, e.message, f.facts,
    audit_body(run.tenant_id, 'system', 'scheduler', e.level, e.action, 'recurring', run.recurring_id, e.message, f.facts)
  from (values
    ('RECURRING_FAILED', 'warn', coalesce(p_error, ''), p_outcome in ('failed', 'timeout', 'lost')),
    ('RECURRING_REMOVED', 'info', 'It ran once.', is_removed)
  ) e(action, level, message, happened)
  cross join lateral (select jsonb_build_object(
    'run_id', run.id, 'outcome', p_outcome, 'attempt', run.attempt_no, 'worker', run.worker_id)
    || case e.action when 'RECURRING_REMOVED' then '{"state": null}' else '{}' end::jsonb as facts) f
  where e.happened;
  return case when is_removed then 'removed' else 'kept' end;
end $$;
