-- The request for a run, what policy said about it and who is asked, and the run's steps that wait or are tried again. Without a run the
-- steps are null, without a request its columns. Called by engine/workflows/explain.py. SQL, because it reads all of it in one
-- snapshot, on the database's clock.
select r.id is not null as has_run, i.status::text as intent_status, i.reason as intent_reason, i.workflow,
  coalesce(r.tenant_id, i.tenant_id) as tenant_id,
  (select p.id from atlas.approvals p where p.run_id = :id and p.kind = 'intent' and p.status = 'pending' limit 1) as review_id,
  (select s.value from atlas.system_state s where s.key = 'atlas_online') as gate,
  (select extract(epoch from clock_timestamp() - (s.value->>'last_tick_at')::timestamptz)::float8 from atlas.system_state s
   where s.key = 'engine_tick') as silent_seconds,
  (select jsonb_agg(to_jsonb(w) order by w.name) from (
     select s.kind::text, s.status::text, s.name, s.event_name, s.event_match, s.child_id, s.approval_id, s.attempts, s.wake_at,
       s.error->>'message' as message, c.status::text as child_status
     from atlas.workflow_steps s
     left join atlas.jobs c on c.id = s.child_id
     where s.run_id = :id and s.status in ('waiting', 'retrying') limit 5) w) as steps
from (select) one
left join atlas.workflow_runs r on r.id = :id and (:tenant_id::uuid is null or r.tenant_id = :tenant_id)
left join atlas.intents i on i.id = :id and (:tenant_id is null or i.tenant_id = :tenant_id)
where r.id is not null or i.id is not null;
