-- The newest tenants, tokens, hosts, triggers, definitions and policies compared with their events: which facts differ, or that
-- there is no event at all. An entity whose first event was removed by order is compared with what is left.
-- Across tenants: the doctor checks the whole installation.
with things as (
  (select 'tenant' as kind, id::text as id, created_at, array['TENANT_ADDED', 'TENANT_EDITED'] as actions,
     jsonb_build_object('slug', slug, 'name', name, 'timezone', timezone, 'limits', limits, 'retention', retention) as facts
   from atlas.tenants
   -- made by the migrations
   where id <> '00000000-0000-7000-8000-000000000001'
   order by id desc limit :limit)
  union all
  (select 'token', id::text, created_at, array['TOKEN_ADDED', 'TOKEN_REVOKED'],
     jsonb_build_object('prefix', prefix, 'subject', subject, 'role', role, 'scopes', scopes, 'tenant', tenant_id,
       'expires_at', expires_at, 'revoked', revoked_at is not null)
   from atlas.api_tokens order by id desc limit :limit)
  union all
  (select 'host', id::text, created_at, array['HOST_ADDED', 'HOST_ENABLED', 'HOST_DISABLED'],
     jsonb_build_object('name', name, 'tenant', tenant_id, 'is_active', is_active)
   from atlas.hosts order by id desc limit :limit)
  union all
  (select 'trigger', id::text, created_at, array['TRIGGER_ADDED', 'TRIGGER_EDITED', 'TRIGGER_REMOVED'],
     case when deleted_at is not null then '{"removed": true}' else
       jsonb_build_object('removed', false, 'tenant', tenant_id, 'label', label, 'trigger_type', trigger_type, 'is_enabled', is_enabled,
         'event_name', event_name, 'cron_expr', cron_expr, 'timezone', timezone, 'definition_key', definition_key,
         'job_type', job_type, 'workflow', workflow, 'dedupe_window_seconds', dedupe_window_seconds, 'misfire', misfire) end
   from atlas.job_triggers order by id desc limit :limit)
  union all
  (select 'definition', id::text, created_at, array['DEFINITION_ADDED', 'DEFINITION_EDITED', 'DEFINITION_DISABLED'],
     jsonb_build_object('key', key, 'argv', argv, 'timeout_seconds', timeout_seconds, 'max_retries', max_retries,
       'concurrency', concurrency, 'is_active', is_active)
   from atlas.job_definitions order by id desc limit :limit)
  union all
  (select 'policy_rule', id::text, created_at, array['POLICY_ADDED'],
     jsonb_build_object('tenant', tenant_id, 'label', label, 'effect', effect, 'workflow', workflow,
       'except_workflows', except_workflows, 'spend_above_cents', spend_above_cents, 'spend_per_day_cents', spend_per_day_cents,
       'runs_per_day', runs_per_day, 'is_enabled', is_enabled)
   from atlas.policy_rules order by id desc limit :limit)
),
compared as (
  select t.kind, t.id, e.last is null as has_no_event,
    array(
      select f.key from jsonb_each(t.facts) f
      where e.last is not null and recorded.facts ? f.key and recorded.facts->f.key <> f.value
      order by f.key) as wrong
  from things t
  -- its last event, and whether its first one is there
  cross join lateral (
    select coalesce(bool_or(a.action = t.actions[1]), false) as added,
      (array_agg(a.action order by a.id desc))[1] as last,
      (array_agg(a.meta order by a.id desc))[1]
        || jsonb_build_object('tenant', (array_agg(a.tenant_id order by a.id desc))[1]) as facts
    from atlas.audit_log a
    where a.entity_id = t.id and a.entity_type = t.kind and a.action = any (t.actions)
  ) e
  -- the facts of the events, named as the row's columns
  cross join lateral (
    select case t.kind
      when 'tenant' then case when e.added then '{"limits": {}, "retention": {}}'::jsonb else '{}' end || coalesce((
        -- the event of an edit has only what it changed
        select jsonb_object_agg(o.key, o.value)
        from (
          select distinct on (x.key) x.key, x.value
          from atlas.audit_log a cross join lateral jsonb_each(a.meta) x
          where a.entity_id = t.id and a.entity_type = 'tenant' and a.action = any (t.actions)
          order by x.key, a.id desc) o), '{}')
      when 'token' then e.facts || jsonb_build_object('revoked', e.last = 'TOKEN_REVOKED',
        'expires_at', (e.facts->>'expires_at')::timestamptz)
      when 'host' then e.facts || jsonb_build_object('is_active', e.last <> 'HOST_DISABLED')
      -- what is not set is not in the event
      when 'trigger' then '{"event_name": null, "cron_expr": null, "timezone": null, "definition_key": null, "job_type": null, "workflow": null}'
        || e.facts || jsonb_build_object('removed', e.last = 'TRIGGER_REMOVED')
      when 'policy_rule' then e.facts || '{"is_enabled": true}'
      else e.facts end as facts
  ) recorded
  where e.added or e.last is not null or t.created_at > coalesce((
    select s.sealed_at from atlas.audit_pruned p join atlas.audit_seal s on s.n = p.through_seal order by p.through_seal desc limit 1), '-infinity')
)
select kind, id, has_no_event, wrong
from compared
where has_no_event or cardinality(wrong) > 0
limit 100;
