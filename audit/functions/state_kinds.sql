-- What grants power or decides, and whose rows are compared with the digests in their events: the kind of each as its events name it, its table,
-- the text and the tenant by which events name it, how to find one by these ($1 and $2), since when it is there, and the columns that
-- change without an event. `pause` events name what is paused, and have the digest as `pause_state`. audit/state.py has the same kinds,
-- and the tables that are not compared. Called by state_digests_without and had_state.
create or replace function state_kinds()
returns table (kind text, source text, entity text, tenant text, named_by text, since text, changing text) language sql immutable
set search_path from current as $$
  values
    ('tenant', 'tenants', 't.id', 't.id', 't.id = $1::uuid', 't.created_at', $_$'{updated_at}'$_$),
    ('token', 'api_tokens', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at', $_$'{last_used_at}'$_$),
    ('session', 'sessions', 't.id', 'null::uuid', 't.id = $1::uuid', 't.created_at', $_$'{last_seen_at,ip_commitment,browser}'$_$),
    ('enqueue_grant', 'enqueue_grants', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at', $_$'{}'$_$),
    ('approval', 'approvals', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at', $_$'{}'$_$),
    ('policy_rule', 'policy_rules', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at', $_$'{updated_at}'$_$),
    ('definition', 'job_definitions', 't.id', 'null::uuid', 't.id = $1::uuid', 't.created_at', $_$'{updated_at}'$_$),
    ('workflow', 'workflows', 't.key', 't.tenant_id', 't.key = $1 and t.tenant_id is not distinct from $2', 't.created_at', $_$'{last_seen_at,build,updated_at}'$_$),
    ('trigger', 'job_triggers', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at',
      $_$'{last_fire_at,next_fire_at,active_since,last_error,outages,updated_at}'$_$),
    ('host', 'hosts', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at', $_$'{last_seen_at,agent_version,updated_at}'$_$),
    ('server_instance', 'server_instances', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at', $_$'{updated_at}'$_$),
    ('webhook', 'webhooks', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at', $_$'{failing_since,last_error,updated_at}'$_$),
    ('inbound_hook', 'inbound_hooks', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at', $_$'{}'$_$),
    ('pause', 'pauses', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.paused_at', $_$'{version}'$_$),
    ('recurring', 'recurring_jobs', 't.id', 't.tenant_id', 't.id = $1 and t.tenant_id = $2', 't.created_at',
      $_$'{next_run_at,run_id,run_count,updated_at}'$_$),
    ('group', 'job_groups', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at', $_$'{}'$_$),
    ('bulk_action', 'bulk_actions', 't.id', 't.tenant_id', 't.id = $1::uuid', 't.created_at',
      $_$case when t.status = 'running' then '{position,list_cursor,changed,passed_over,verdicts,next_step_at,updated_at}' else '{}' end$_$),
    ('job_type', 'job_types', 't.key', 'null::uuid', 't.key = $1', 't.last_seen_at', $_$'{last_seen_at}'$_$)
$$;
