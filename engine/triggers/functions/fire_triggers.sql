-- Due times and events -> firings: for each its record, its job or its request for a workflow, its audit event, and the trigger's next
-- due time. All in this call, or nothing.
-- `outcome` is 'fired'; 'closed' while Atlas is offline; 'stale' where something changed since the caller read it. Then nothing is
-- changed, `gone` are the triggers that others changed or are firing, `repeated` the firings that are recorded already.
-- p_triggers: id, updated_at and next_fire_at as the caller read them; `next`, the next due time, where `advances`; last_fire_at,
-- last_error. p_firings: id, trigger_id, tenant_id, due_at, event_id, result, job_id, payload_hash (hex), window, error. p_jobs,
-- p_intents, p_secrets: what the firings start. p_audit: their audit events. p_events: events that are handled with this.
-- p_by_scheduler: false for a firing by request, which Atlas offline, a pause and an edit do not stop.
-- Locks: gate (shared), triggers and events (skipping locked ones), for this call alone when it is a transaction of its own.
-- Called by engine/triggers/fire.py.
create or replace function fire_triggers(
  p_triggers jsonb, p_firings jsonb, p_jobs jsonb, p_intents jsonb, p_secrets jsonb, p_audit jsonb, p_events uuid[], p_by_scheduler boolean,
  p_actor_type text, p_actor_id text, out outcome text, out gone uuid[], out repeated uuid[]
) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  clock timestamptz := schedule_clock();
  held uuid[];
  made uuid[];
  refused uuid;
begin
  if p_by_scheduler then
    if not may_claim(null) then
      outcome := 'closed';
      return;
    end if;
    held := array(
      select t.id
      from jsonb_to_recordset(p_triggers) x(id uuid, updated_at timestamptz, next_fire_at timestamptz)
      join job_triggers t on t.id = x.id
      where t.is_enabled
        and t.updated_at = x.updated_at
        and t.next_fire_at is not distinct from x.next_fire_at
        and not exists (
          select from pauses p
          where p.kind = 'trigger' and p.target = t.id::text and (p.until is null or p.until > clock_timestamp()))
      order by t.id
      for update of t skip locked);
    gone := array(select x.id from jsonb_to_recordset(p_triggers) x(id uuid) where x.id <> all (held));
    -- One that is equal to a firing of the last seconds is swallowed: the caller looks again.
    repeated := array(
      select x.id
      from jsonb_to_recordset(p_firings) x(id uuid, trigger_id uuid, due_at timestamptz, event_id uuid)
      where exists (select from trigger_fires f where f.trigger_id = x.trigger_id and f.due_at = x.due_at)
         or exists (select from trigger_fires f where f.trigger_id = x.trigger_id and f.event_id = x.event_id));
    if cardinality(gone) > 0 or cardinality(repeated) > 0
       or exists (
         select
         from jsonb_to_recordset(p_firings) x(trigger_id uuid, result text, payload_hash text, "window" int)
         join trigger_fires f on f.trigger_id = x.trigger_id and f.payload_hash = decode(x.payload_hash, 'hex') and f.result = 'fired'
         where x.result = 'fired' and f.fired_at > clock - x."window" * interval '1 second')
       or cardinality(p_events) > cardinality(array(
         select e.id from events e where e.id = any (p_events) and e.handled_at is null for update skip locked)) then
      outcome := 'stale';
      return;
    end if;
  end if;

  insert into trigger_fires (id, trigger_id, tenant_id, due_at, event_id, fired_at, result, job_id, payload_hash, error, created_by)
  select x.id, x.trigger_id, x.tenant_id, x.due_at, x.event_id, clock, x.result::fire_result, x.job_id,
    decode(x.payload_hash, 'hex'), x.error, p_actor_id
  from jsonb_to_recordset(p_firings)
    x(id uuid, trigger_id uuid, tenant_id uuid, due_at timestamptz, event_id uuid, result text, job_id uuid, payload_hash text, error text);
  if p_jobs <> '[]' then
    perform enqueue_many(p_actor_type, p_actor_id, true, j.ids, j.tenants, j.types, j.inputs, j.metas, null,
      p_max_retries => j.retries, p_type_retries => j.type_retries, p_limit_by => j.limit_by, p_correlation => j.correlations, p_source => j.sources,
      p_source_ref => j.source_refs, p_definition => j.definitions, p_host => j.hosts, p_instance => j.instances)
    from (
      select array_agg(x.id) as ids, array_agg(x.tenant_id) as tenants, array_agg(x.job_type) as types, array_agg(x.input) as inputs,
        array_agg(x.meta) as metas, array_agg(x.max_retries) as retries, array_agg(x.type_retries) as type_retries,
        case when count(x.limit_by) > 0 then array_agg(x.limit_by) end as limit_by, array_agg(x.correlation_id) as correlations,
        array_agg(x.source) as sources, array_agg(x.source_ref) as source_refs, array_agg(x.definition_id) as definitions,
        array_agg(x.host_id) as hosts, array_agg(x.server_instance_id) as instances
      from jsonb_to_recordset(p_jobs)
        x(id uuid, tenant_id uuid, job_type text, input jsonb, meta jsonb, max_retries int, type_retries int, limit_by text,
          correlation_id text, source text, source_ref text, definition_id uuid, host_id uuid, server_instance_id uuid)) j;
    insert into job_secrets (job_id, tenant_id, key_id, field, nonce, ciphertext)
    select x.job_id, x.tenant_id, x.key_id, x.field, decode(x.nonce, 'hex'), decode(x.ciphertext, 'hex')
    from jsonb_to_recordset(p_secrets) x(job_id uuid, tenant_id uuid, key_id text, field text, nonce text, ciphertext text);
  end if;
  if p_intents <> '[]' then
    -- On behalf of the person who changed the trigger last, as the system; by request, of who asked.
    made := array(select request_workflows(p_intents, case when p_by_scheduler then 'system' else p_actor_type end));
    for refused in select x.tenant_id from jsonb_to_recordset(p_intents) x(id uuid, tenant_id uuid) where x.id <> all (made) loop
      perform refuse_moving(refused);
      raise exception 'there is no tenant %, or it is being removed', refused using errcode = 'AT404', detail = refused::text;
    end loop;
  end if;

  insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  select x.tenant_id, p_actor_type::actor_type, p_actor_id, x.level::audit_level, x.action, 'trigger', x.trigger_id, x.message, x.meta,
    audit_body(x.tenant_id, p_actor_type, p_actor_id, x.level, x.action, 'trigger', x.trigger_id::text, x.message, x.meta)
  from jsonb_to_recordset(p_audit) x(trigger_id uuid, tenant_id uuid, level text, action text, message text, meta jsonb);
  update job_triggers t
  set next_fire_at = case when x.advances then x.next else t.next_fire_at end,
      last_fire_at = coalesce(x.last_fire_at, t.last_fire_at),
      last_error   = x.last_error,
      outages      = case when x.advances then t.outages * tstzmultirange(tstzrange(x.next, null)) else t.outages end
  from jsonb_to_recordset(p_triggers) x(id uuid, advances boolean, "next" timestamptz, last_fire_at timestamptz, last_error jsonb)
  where t.id = x.id;
  if cardinality(p_events) > 0 then
    update events set handled_at = clock_timestamp() where id = any (p_events) and handled_at is null;
  end if;
  outcome := 'fired';
end $$;
