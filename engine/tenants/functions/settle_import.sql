-- What an imported tenant needs beside its rows, in the transaction that brought them: definitions and shared workflows are found by their names,
-- since their ids are those of another installation; runs that a pause held there are due, and no worker has to confirm its pauses; the next claim looks at the jobs
-- that a limit holds; and every job, and whatever grants power or decides, gets an event that says how it came here, so that it can be
-- compared with the audit log. p_definitions and p_workflows: the ids there, and the names. Called by engine/tenants/move_import.py.
create or replace function settle_import(
  p_tenant uuid, p_definitions jsonb, p_workflows jsonb, p_actor_type text, p_actor_id text, p_meta jsonb
) returns void language plpgsql volatile
set search_path from current as $$
declare
  kind text;
begin
  update jobs j set definition_id = d.id
  from jsonb_to_recordset(p_definitions) o(id uuid, key text)
  join job_definitions d on d.key = o.key
  where j.tenant_id = p_tenant and j.definition_id = o.id and d.id <> o.id;
  update workflow_runs r set workflow_id = w.id
  from jsonb_to_recordset(p_workflows) o(id uuid, key text, version int)
  join workflows w on w.key = o.key and w.version = o.version and w.tenant_id is null
  where r.tenant_id = p_tenant and r.workflow_id = o.id and w.id <> o.id;
  update jobs set next_retry_at = null
  where tenant_id = p_tenant and status = 'queued' and next_retry_at >= paused_until(0) and next_retry_at < '9999-12-31';
  update pauses set version = 0 where tenant_id = p_tenant;
  -- Due times that passed while it moved were missed.
  update job_triggers set outages = outages + tstzmultirange(tstzrange(next_fire_at, schedule_clock(), '[]'))
  where tenant_id = p_tenant and next_fire_at <= schedule_clock();
  insert into limit_events (limit_id, tenant_id)
  select distinct j.held_by, p_tenant from jobs j where j.tenant_id = p_tenant and j.status = 'queued' and j.held_by is not null;

  insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
  select p_tenant, p_actor_type::actor_type, p_actor_id, 'JOB_IMPORTED', 'job', j.id::text, f.meta,
    audit_body(p_tenant, p_actor_type, p_actor_id, 'info', 'JOB_IMPORTED', 'job', j.id::text, '', f.meta)
  from jobs j
  cross join lateral (select p_meta || jsonb_build_object('job_type', j.job_type, 'status', j.status, 'job_cost_cents', j.cost_cents) as meta) f
  where j.tenant_id = p_tenant
  order by j.id;
  foreach kind in array array['token', 'approval', 'policy_rule', 'trigger', 'host', 'server_instance', 'webhook', 'inbound_hook', 'workflow',
    'pause', 'recurring', 'group', 'bulk_action'] loop
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    select p_tenant, p_actor_type::actor_type, p_actor_id, 'IMPORTED', kind, d.entity_id, f.meta,
      audit_body(p_tenant, p_actor_type, p_actor_id, 'info', 'IMPORTED', kind, d.entity_id, '', f.meta)
    from state_digests(kind, null, null) d
    cross join lateral (
      select p_meta || jsonb_strip_nulls(jsonb_build_object('state', d.digest, 'run_id', case when kind = 'approval' then (
        select a.run_id from approvals a where a.id = d.entity_id::uuid) end)) as meta) f
    where d.tenant_id = p_tenant;
  end loop;
  -- the personal values that its events there commit to
  insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
  select p_tenant, p_actor_type::actor_type, p_actor_id, 'PERSONAL_DATA_IMPORTED', 'audit_private', e.entity_id, f.meta,
    audit_body(p_tenant, p_actor_type, p_actor_id, 'info', 'PERSONAL_DATA_IMPORTED', 'audit_private', e.entity_id, '', f.meta)
  from (
    select v.entity_id, jsonb_object_agg(v.field, v.shapes) as shapes
    from (
      select coalesce(entity_id, p_tenant::text) as entity_id, field,
        jsonb_agg(jsonb_build_object('commitment', encode(commitment, 'hex'))) as shapes
      from audit_private where tenant_id = p_tenant group by 1, 2) v
    group by 1) e
  cross join lateral (select p_meta || e.shapes as meta) f;
  perform pg_notify(current_schema() || '_jobs', '');
end $$;
