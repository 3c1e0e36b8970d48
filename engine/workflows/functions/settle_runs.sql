-- running -> queued for runs that suspend; the second half: the waits are stored by now. Looks whether what is awaited has come
-- already, and queues the runs for when they are due. The caller holds the rows, so that what comes later finds them queued.
-- Called by engine/workflows/suspend.py.
create or replace function settle_runs(p_id uuid[], p_certain boolean[], p_at_once boolean[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  cursor_now bigint := event_cursor();
  wait record;
  found_id uuid;
  some_due boolean;
begin
  for wait in
    select s.run_id, s.branch, s.position, s.tenant_id, s.event_name, s.event_match, s.event_cursor,
      p_certain[array_position(p_id, s.run_id)] as certain
    from only workflow_steps s
    where s.run_id = any (p_id) and s.status = 'waiting' and s.event_name is not null and s.event_id is null
    order by s.run_id, s.started_at, s.branch, s.position
  loop
    select e.id into found_id from events e
    where e.tenant_id = wait.tenant_id and e.name = wait.event_name and e.seq > wait.event_cursor
      and (e.run_id is null or e.run_id = wait.run_id) and e.context @> wait.event_match
      and not exists (select from only workflow_steps x where x.run_id = wait.run_id and x.event_id = e.id)
    order by e.seq limit 1;
    if found_id is not null or (wait.certain and cursor_now > wait.event_cursor) then
      update only workflow_steps s
      set event_id = found_id, event_cursor = case when wait.certain then cursor_now else s.event_cursor end
      where s.run_id = wait.run_id and s.branch = wait.branch and s.position = wait.position;
    end if;
  end loop;
  with queued as (
    update only jobs j
    set status = 'queued', claimed_by = null, lease_expires_at = null, updated_at = clock_timestamp(), due_at = clock_timestamp(),
        next_retry_at = case when u.at_once or w.arrived or w.wake <= clock_timestamp() then null
                             when u.certain then coalesce(w.wake, '9999-12-31 00:00:00+00')
                             else least(w.wake, clock_timestamp() + interval '0.5 second') end
    from unnest(p_id, p_certain, p_at_once) u(id, certain, at_once)
    cross join lateral (
      select min(s.wake_at) as wake,
        coalesce(bool_or(s.event_id is not null
          or (s.child_id is not null and not exists (select from only jobs c where c.id = s.child_id and c.status in ('queued', 'running')))
          or (s.approval_id is not null and s.child_id is null and exists (select from approvals a where a.id = s.approval_id and a.status <> 'pending'))),
          false) as arrived
      from only workflow_steps s
      where s.run_id = u.id and s.status in ('waiting', 'retrying')) w
    where j.id = u.id and j.status = 'running'
    returning j.next_retry_at)
  select bool_or(q.next_retry_at is null) into some_due from queued q;
  if some_due then
    perform pg_notify(current_schema() || '_jobs', '');
  end if;
end $$;
