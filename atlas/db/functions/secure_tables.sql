-- Grants, row-level security and ownership of every table. Atlas's programs act as <schema>_engine and see everything; a request of
-- a tenant acts as <schema>_tenant, and the setting atlas.tenant, which lasts for its transaction, says whose rows exist for it.
-- Row-level security is forced, so it holds for the owner too. `atlas migrate` runs this after it installed the functions; it may
-- be run again by the owner of the tables, where the roles were created later. Where nothing differs it locks no table, so that programs
-- go on while functions are installed.
create or replace function secure_tables() returns void language plpgsql volatile
set search_path from current
-- An administrator may run it in psql, where it would print a notice for every policy that is made for the first time.
set client_min_messages = warning as $$
declare
  here constant text := current_schema();
  owner_role constant text := here || '_owner';
  engine_role constant text := here || '_engine';
  tenant_role constant text := here || '_tenant';
  me constant text := $me$nullif(current_setting('atlas.tenant', true), '')::uuid$me$;
  row_columns constant text := '(tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)';
  fixed constant text[] := array['id', 'tenant_id', 'host_id', 'server_instance_id', 'parent_run_id', 'group_id', 'run_id', 'forked_from',
    'workflow_id', 'child_id', 'approval_id', 'requested_by', 'input_hash', 'limit_id', 'rate_id', 'held_by', 'scheduled_for'];
  one record;
  visible text;
  mine text;
begin
  if (select count(*) from pg_roles
      where rolname in (owner_role, engine_role, tenant_role) and pg_has_role(current_user, oid, 'member')) < 3 then
    raise notice 'without its roles Atlas has no row-level security between tenants; see atlas doctor';
    return;
  end if;
  execute format('grant usage on schema %I to %I, %I, %I', here, owner_role, engine_role, tenant_role);
  execute format('grant create on schema %I to %I', here, owner_role);

  -- What each role may do at all; which rows a tenant may see, the policies say. The programs may not choose an audit row's id,
  -- epoch, transaction or time.
  for one in
    select t.role, name, rights
    from (values
      (engine_role, 'tenants, api_tokens, sessions, idempotency_keys, system_state, running_programs, jobs, job_attempts, job_types, job_workers, tenant_shares, share_clock, '
        'job_limits, limit_events, counted_jobs, '
        'job_definitions, job_secrets, hosts, server_instances, events, workflows, intents, workflow_runs, workflow_steps, approvals, '
        'policy_rules, mail_ledger, mail_pace, mail_slots, effects, job_triggers, trigger_fires, scheduler_leader, recurring_jobs, recurring_runs, usage_hourly, usage_costs, '
        'job_counts, job_totals, job_series, dead_letters, dead_letter_causes, webhooks, inbound_hooks, bulk_actions, bulk_previews, pauses, '
        'job_groups, enqueue_grants',
        'select, insert, update, delete'),
      (engine_role, 'worker_keys', 'insert'),
      (engine_role, '_prisma_migrations', 'select'),
      (engine_role, 'job_runs, shown_jobs, listed_jobs, workflow_run_states, audit_log, audit_entries, audit_epoch, audit_pruned', 'select'),
      (engine_role, 'audit_seal, audit_seal_tenant, audit_checkpoint, audit_moved, audit_private', 'select, insert'),
      (engine_role, 'audit_log', 'insert ' || row_columns),
      (tenant_role, 'job_types, job_definitions, job_workers, system_state, pauses, job_runs, shown_jobs, listed_jobs, workflow_run_states', 'select'),
      (tenant_role, 'tenants, job_attempts, usage_hourly, job_counts, job_series, dead_letters, dead_letter_causes, recurring_jobs, recurring_runs', 'select'),
      (tenant_role, 'events, trigger_fires', 'select, insert'),
      (tenant_role, 'effects', 'select, update (state, reference, ended_at, settled_by, settled_at)'),
      (tenant_role, 'api_tokens', 'select, insert, update (revoked_at)'),
      (tenant_role, 'job_groups', 'select, insert, update (total)'),
      (tenant_role, 'workflows, intents, job_triggers, idempotency_keys, bulk_actions, bulk_previews', 'select, insert'),
      (tenant_role, 'hosts, server_instances, jobs, workflow_runs, workflow_steps, approvals, webhooks, inbound_hooks',
        'select, insert, delete'),
      (tenant_role, 'inbound_hooks', 'update (key_id, nonce, ciphertext)'),
      (tenant_role, 'bulk_previews', 'delete'),
      (tenant_role, 'policy_rules', 'select'),
      (tenant_role, 'job_secrets, audit_private, limit_events', 'insert'),
      (tenant_role, 'job_limits', 'select'),
      (tenant_role, 'audit_log, audit_entries', 'select'),
      (tenant_role, 'audit_log', 'insert ' || row_columns)
    ) t(role, names, rights)
    cross join lateral regexp_split_to_table(names, ', ') n(name)
    where to_regclass(name) is not null
  loop
    execute format('grant %s on %I to %I', one.rights, one.name, one.role);
  end loop;
  -- A right that earlier versions granted: rules are for operators to change.
  execute format('revoke insert, update, delete on policy_rules from %I', tenant_role);
  -- A tenant may change its rows, but not what they refer to: a reference could lead to another tenant's row. Nor the time that a
  -- job was enqueued for.
  for one in
    select c.relname as name, string_agg(quote_ident(a.attname), ', ') as columns
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname <> all (fixed)
    where c.relnamespace = here::regnamespace
      and c.relname in ('hosts', 'server_instances', 'workflows', 'intents', 'job_triggers', 'idempotency_keys', 'jobs',
                        'workflow_runs', 'workflow_steps', 'approvals', 'webhooks', 'bulk_actions')
    group by c.relname
  loop
    execute format('revoke update on %I from %I', one.name, tenant_role);
    execute format('grant update (%s) on %I to %I', one.columns, one.name, tenant_role);
  end loop;
  execute format('grant usage, select on sequence events_seq_seq to %I', engine_role);
  execute format('grant select on sequence events_seq_seq to %I', tenant_role);

  -- Deleting audit rows and beginning an epoch is the owner's.
  for one in
    select p.oid::regprocedure as signature, p.proname as name from pg_proc p
    where p.pronamespace = here::regnamespace and p.proname in ('audit_erase', 'audit_prune', 'audit_new_epoch', 'audit_name_key')
  loop
    execute format('revoke execute on function %s from public', one.signature);
    execute format('alter function %s owner to %I', one.signature, owner_role);
  end loop;
  execute format('grant execute on function audit_erase(text, uuid, text[], text, text, jsonb, text[]) to %I', engine_role);
  execute format('grant execute on function audit_name_key(text) to %I', engine_role);
  -- These run as the owner for a tenant too: two read the tokens of all tenants and of operators, or sessions, and return yes or no; one
  -- changes what rows refer to, and checks that all of them are the tenant's; one counts the tenants that compete; two pause and resume what is its own; one
  -- brings back its own jobs from history, and four read them there.
  for one in
    select p.oid::regprocedure as signature from pg_proc p
    where p.pronamespace = here::regnamespace and p.proname in ('is_same_person', 'hold_session', 'move_server_instance', 'share_of', 'pause_target', 'resume_target', 'return_jobs', 'history_keys', 'history_jobs', 'history_rows', 'rows_of_jobs')
  loop
    execute format('alter function %s owner to %I', one.signature, owner_role);
    execute format('revoke execute on function %s from public', one.signature);
    execute format('grant execute on function %s to %I, %I', one.signature, engine_role, tenant_role);
  end loop;
  -- These create, fill and drop tables of history, for the programs alone.
  for one in
    select p.oid::regprocedure as signature from pg_proc p
    where p.pronamespace = here::regnamespace
      and p.proname in ('add_history_part', 'move_to_history', 'return_from_history', 'drop_history_part')
  loop
    execute format('alter function %s owner to %I', one.signature, owner_role);
    execute format('revoke execute on function %s from public', one.signature);
    execute format('grant execute on function %s to %I', one.signature, engine_role);
  end loop;
  execute format('alter function audit_is_append_only() owner to %I', owner_role);
  execute format('alter function audit_actor_is_known() owner to %I', owner_role);
  execute format('alter function note_limits() owner to %I', owner_role);
  execute format('alter function recheck_limits() owner to %I', owner_role);
  execute format('alter function note_history_change() owner to %I', owner_role);
  -- These run as the owner too, for logins without a right to any table.
  for one in
    select p.oid::regprocedure as signature from pg_proc p
    where p.pronamespace = here::regnamespace and p.proname in ('enqueue', 'commit_attempt')
  loop
    execute format('alter function %s owner to %I', one.signature, owner_role);
  end loop;
  perform secure_enqueue();

  -- Bypassing the policies, where the login may grant it, spares the planner: behind a policy it does not look at the statistics
  -- of columns whose comparison could leak, such as a status.
  if not (select rolbypassrls from pg_roles where rolname = engine_role) then
    begin
      execute format('alter role %I bypassrls', engine_role);
    exception
      when insufficient_privilege or internal_error then null;  -- not allowed, or another database does it at the same time
    end;
  end if;

  for one in
    select c.relname::text as name, c.relrowsecurity and c.relforcerowsecurity as is_secured from pg_class c
    where c.relnamespace = here::regnamespace and c.relkind in ('r', 'p')
      -- no role but the owner has a right to a table of history: it is read through jobs, whose policies hold then
      and not exists (select from pg_inherits i where i.inhrelid = c.oid)
      and (c.relname in ('tenants', 'job_attempts', 'sessions') or exists (
        select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped))
  loop
    mine := case one.name
      when 'tenants' then format('id = %s', me)
      when 'job_attempts' then 'exists (select from jobs j where j.id = job_id)'
      when 'sessions' then 'false'
      else format('tenant_id = %s', me) end;
    -- What belongs to no tenant in particular may be read by all of them.
    visible := case when one.name in ('workflows', 'policy_rules', 'job_limits', 'pauses') then format('(tenant_id is null or %s)', mine) else mine end;
    if not one.is_secured then
      execute format('alter table %I enable row level security, force row level security', one.name);
    end if;
    perform secure_policy(one.name, 'programs',
      format('to %I, %I, %I using (true) with check (true)', engine_role, owner_role, current_user));
    perform secure_policy(one.name, 'own_rows', format('to %I using (%s) with check (%s)', tenant_role, mine, mine));
    if visible <> mine then
      perform secure_policy(one.name, 'shared_rows', format('for select to %I using (%s)', tenant_role, visible));
    elsif exists (select from pg_policy p where p.polrelid = one.name::regclass and p.polname = 'shared_rows') then
      execute format('drop policy shared_rows on %I', one.name);
    end if;
  end loop;

  -- A new row may not refer to another tenant's: what it names must exist for its own tenant, and a token that a tenant creates is
  -- not an operator's. Rows that exist already may outlive what they name; the event that ends a wait exists when it does.
  for one in
    select name, owns
    from (values
      ('jobs', $own$(jobs.host_id is null or exists (select from hosts o where o.id = jobs.host_id))
        and (jobs.server_instance_id is null or exists (select from server_instances o where o.id = jobs.server_instance_id))
        and (jobs.parent_run_id is null or exists (select from workflow_runs o where o.id = jobs.parent_run_id))
        and (jobs.group_id is null or exists (select from job_groups o where o.id = jobs.group_id))$own$),
      ('job_groups', 'job_groups.then_job_id is null or exists (select from jobs o where o.id = job_groups.then_job_id)'),
      ('job_secrets', 'exists (select from jobs o where o.id = job_secrets.job_id)'),
      ('server_instances', 'exists (select from hosts o where o.id = server_instances.host_id)'),
      ('trigger_fires', 'exists (select from job_triggers o where o.id = trigger_fires.trigger_id)'),
      ('intents', 'intents.forked_from is null or exists (select from workflow_runs o where o.id = intents.forked_from)'),
      ('workflow_steps', 'exists (select from workflow_runs o where o.id = workflow_steps.run_id)'),
      ('approvals', $own$exists (select from workflow_runs o where o.id = approvals.run_id)
        or exists (select from intents o where o.id = approvals.run_id)$own$),
      ('events', $own$events.run_id is null or exists (select from workflow_runs o where o.id = events.run_id)
        or exists (select from intents o where o.id = events.run_id)$own$),
      ('api_tokens', $own$role <> 'operator'$own$)
    ) t(name, owns)
  loop
    perform secure_policy(one.name, 'own_references',
      format('as restrictive for insert to %I with check (%s)', tenant_role, one.owns));
  end loop;
  perform secure_policy('workflow_steps', 'own_event', format($own$as restrictive for update to %I using (true)
    with check (event_id is null or exists (select from events o where o.id = event_id))$own$, tenant_role));

  for one in
    select tablename as name from pg_tables
    where schemaname = here and tablename <> '_prisma_migrations' and tableowner <> owner_role
  loop
    execute format('alter table %I owner to %I', one.name, owner_role);
  end loop;
end $$;
