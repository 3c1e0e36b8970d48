-- Adds the attempts of these minutes to usage by the hour in which they ended. Called by meter_usage, which holds the lock.
create or replace function add_to_usage(p_minutes job_minute[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  insert into usage_hourly as u (tenant_id, job_type, hour, runs, succeeded, failed, timed_out, canceled, lost, run_seconds,
    queue_seconds, cost_cents)
  select m.tenant_id, m.job_type, date_trunc('hour', m.minute, 'UTC'), sum(m.attempts), sum(m.attempts_succeeded),
    sum(m.attempts_failed), sum(m.attempts_timed_out), sum(m.attempts_canceled), sum(m.attempts_lost), sum(m.run_seconds),
    sum(m.queue_seconds), sum(m.cost_cents)
  from unnest(p_minutes) m
  -- A tenant that was removed has no usage any more.
  where m.attempts > 0 and m.tenant_id in (select n.id from tenants n)
  group by 1, 2, 3
  on conflict (tenant_id, job_type, hour) do update
  set runs = u.runs + excluded.runs, succeeded = u.succeeded + excluded.succeeded, failed = u.failed + excluded.failed,
      timed_out = u.timed_out + excluded.timed_out, canceled = u.canceled + excluded.canceled, lost = u.lost + excluded.lost,
      run_seconds = u.run_seconds + excluded.run_seconds, queue_seconds = u.queue_seconds + excluded.queue_seconds,
      cost_cents = u.cost_cents + excluded.cost_cents, updated_at = clock_timestamp();
end $$;
