-- Stores an event and wakes the runs that wait for it, in the caller's transaction. Returns how many.
-- Holding the event's name shared, it excludes runs that begin to wait for it meanwhile: they come before, and are seen here, or
-- after, and see the event. A run at work is left alone: it looks for events itself when it suspends.
-- Locks: event, job rows in ascending id. Called by engine/workflows/events.py.
create or replace function publish_event(
  p_id uuid, p_tenant uuid, p_name text, p_context jsonb, p_run uuid, p_by text, p_correlation text
) returns int language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  woken uuid[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'publishing an event needs READ COMMITTED, not %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state', hint = 'A run that began to wait after this transaction did would not be seen.';
  end if;
  if not exists (select from tenants where id = p_tenant and removing_at is null and moving_at is null) then
    perform refuse_moving(p_tenant);
    raise exception 'there is no tenant %, or it is being removed', p_tenant using errcode = 'AT404', detail = p_tenant::text;
  end if;
  perform pg_advisory_xact_lock_shared(lock_class('event'), hashtext(p_tenant::text || ' ' || p_name));
  insert into events (id, tenant_id, name, context, run_id, created_by, correlation_id)
  values (p_id, p_tenant, p_name, p_context, p_run, p_by, p_correlation);
  woken := array(
    select j.id from only jobs j
    where j.id = any (array(
        select s.run_id from only workflow_steps s
        where s.tenant_id = p_tenant and s.event_name = p_name and s.status = 'waiting' and s.event_id is null
          and p_context @> s.event_match and (p_run is null or s.run_id = p_run)))
      and j.status = 'queued'
    order by j.id for update);
  if cardinality(woken) > 0 then
    -- An event ends one wait of a run: the oldest.
    update only workflow_steps s set event_id = p_id
    from (
      select distinct on (w.run_id) w.run_id, w.branch, w.position
      from only workflow_steps w
      where w.run_id = any (woken) and w.event_name = p_name and w.status = 'waiting' and w.event_id is null
        and p_context @> w.event_match
      order by w.run_id, w.started_at, w.branch, w.position) o
    where s.run_id = o.run_id and s.branch = o.branch and s.position = o.position;
    update only jobs set next_retry_at = null, due_at = clock_timestamp()
    where id = any (woken) and case when status = 'queued' and next_retry_at is not null then true else false end;
    perform pg_notify(current_schema() || '_jobs', '');
  end if;
  perform pg_notify(current_schema() || '_events', '');
  return cardinality(woken);
end $$;
