-- All that decides whether a trigger fires, beside its row: the gate, its last firing and the request that it made, and of its tenant's last
-- thousand events the newest that its name matches, what became of that, and the names of the newest.
-- Called by engine/triggers/explain.py. SQL, because it reads all of it in one snapshot, on the clock of schedules.
with recent as materialized (
  select v.id, v.name, v.created_at, v.handled_at
  from atlas.job_triggers t
  cross join lateral (
    select * from atlas.events
    where tenant_id = t.tenant_id and run_id is null
    order by created_at desc limit 1000) v
  where t.id = :id and t.event_name is not null
)
select atlas.schedule_clock() as now, coalesce(t.active_since, t.created_at) as active_since,
  (select s.value from atlas.system_state s where s.key = 'atlas_online') as gate,
  (select jsonb_build_object('id', p.id, 'kind', p.kind, 'name', t.id, 'tenant', null, 'reason', p.reason, 'by', p.paused_by,
     'since', p.paused_at, 'until', p.until)
   from atlas.pauses p
   where p.kind = 'trigger' and p.target = t.id::text and (p.until is null or p.until > clock_timestamp())) as pause,
  f.result::text as result, f.fired_at, f.due_at, f.error, f.job_id,
  i.id as intent_id, i.status::text as intent_status, i.reason as intent_reason,
  (select p.id from atlas.approvals p where p.run_id = i.id and p.status = 'pending' limit 1) as approval_id,
  e.id as event_id, e.name as event_name, e.created_at as event_at, e.handled_at, of_event.result::text as event_result,
  of_event.error as event_error, of_event.job_id as event_job_id,
  array(select n.name from (
    select name, max(created_at) as newest from recent group by name order by newest desc limit 3) n order by n.newest desc) as recent_names
from atlas.job_triggers t
left join lateral (
  select * from atlas.trigger_fires where trigger_id = t.id order by fired_at desc, due_at desc limit 1) f on true
left join atlas.intents i on i.id = f.job_id and t.workflow is not null
left join lateral (
  select * from recent
  where name = t.event_name or (t.event_name like '%.*' and starts_with(name, left(t.event_name, -1)))
  order by created_at desc limit 1) e on true
left join atlas.trigger_fires of_event on of_event.trigger_id = t.id and of_event.event_id = e.id
where t.id = :id;
