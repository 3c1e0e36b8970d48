-- Deletes events that the triggers have seen, and firings, older than p_before. A firing stays while it can swallow another.
-- An event that a run was woken by and has not read yet stays. Called by engine/retention/retention.py.
create or replace function prune_events(p_tenant uuid, p_before timestamptz, p_limit int)
returns table (events int, fires int) language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  facts jsonb;
begin
  delete from events e
  where e.id = any (array(
    select o.id from events o
    where o.tenant_id = p_tenant and o.created_at < p_before and (o.handled_at is not null or o.run_id is not null)
      and not exists (
        select from workflow_steps s
        where s.tenant_id = p_tenant and s.event_name = o.name and s.status = 'waiting' and s.event_id = o.id)
    order by o.created_at limit p_limit for update skip locked));
  get diagnostics events = row_count;
  delete from trigger_fires f
  where f.id = any (array(
    select o.id from trigger_fires o
    left join job_triggers t on t.id = o.trigger_id
    where o.tenant_id = p_tenant and o.fired_at < p_before
      and (t.id is null or o.fired_at < clock_timestamp() - t.dedupe_window_seconds * interval '1 second')
    order by o.fired_at limit p_limit for update of o skip locked));
  get diagnostics fires = row_count;
  if events + fires > 0 then
    facts := jsonb_build_object('events', events, 'fires', fires, 'before', p_before);
    perform record_event(p_tenant, 'system', 'retention', 'info', 'EVENTS_PRUNED', 'tenant', p_tenant::text, '', facts);
  end if;
  return next;
end $$;
