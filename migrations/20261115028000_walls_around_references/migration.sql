-- The second wall looked at a row's own tenant alone: a tenant's transaction could make a row of its own that names the run,
-- the trigger, the job or the host of another.
create or replace function atlas_raise_walls() returns void language plpgsql set search_path = public, pg_temp as $$
declare
  me constant text := $me$nullif(current_setting('atlas.tenant', true), '')::uuid$me$;
  one record;
  visible text;
  mine text;
begin
  if (select count(*) from pg_roles
      where rolname in ('atlas_owner', 'atlas_engine', 'atlas_tenant') and pg_has_role(current_user, oid, 'member')) < 3 then
    raise notice 'there is no wall between tenants without the roles; see atlas doctor';
    return;
  end if;

  -- What a tenant's request may do at all; which rows, the policies say.
  for one in
    select name, rights
    from (values
      ('job_types, job_definitions, job_workers, system_state, job_runs, workflow_run_states', 'select'),
      ('tenants, job_attempts, usage_hourly, recurring_jobs', 'select'),
      ('events, trigger_fires', 'select, insert'),
      ('api_tokens, hosts, server_instances, workflows, intents, job_triggers, idempotency_keys', 'select, insert, update'),
      ('jobs, workflow_runs, workflow_steps, approvals, policy_rules', 'select, insert, update, delete'),
      ('job_secrets, audit_private', 'insert'),
      ('audit_log', 'select'),
      ('audit_log', 'insert (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)')
    ) t(names, rights)
    cross join lateral regexp_split_to_table(names, ', ') n(name)
    where to_regclass(name) is not null
  loop
    execute format('grant %s on %I to atlas_tenant', one.rights, one.name);
  end loop;
  grant select on sequence events_seq_seq to atlas_tenant;
  grant select, insert, update, delete on sessions, idempotency_keys to atlas_engine;

  -- Passing by the policies altogether, where the login may grant it, spares the planner: behind a policy it does not look at
  -- the statistics of columns whose comparison could leak, such as a status.
  if not (select rolbypassrls from pg_roles where rolname = 'atlas_engine') then
    begin
      alter role atlas_engine bypassrls;
    exception
      when insufficient_privilege or internal_error then null;  -- not allowed, or another database does it right now
    end;
  end if;

  for one in
    select c.relname as name from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
      and (c.relname in ('tenants', 'job_attempts', 'sessions') or exists (
        select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped))
  loop
    mine := case one.name
      when 'tenants' then format('id = %s', me)
      when 'job_attempts' then 'exists (select from jobs j where j.id = job_id)'
      when 'sessions' then 'false'
      else format('tenant_id = %s', me) end;
    -- What belongs to no tenant in particular is there for all of them to read.
    visible := case when one.name in ('workflows', 'policy_rules') then format('(tenant_id is null or %s)', mine) else mine end;
    execute format('alter table %I enable row level security', one.name);
    execute format('alter table %I force row level security', one.name);
    execute format('drop policy if exists programs on %I', one.name);
    execute format('create policy programs on %I to atlas_engine, atlas_owner, current_user using (true) with check (true)', one.name);
    execute format('drop policy if exists own_rows on %I', one.name);
    execute format('create policy own_rows on %I to atlas_tenant using (%s) with check (%s)', one.name, mine, mine);
    execute format('drop policy if exists shared_rows on %I', one.name);
    if visible <> mine then
      execute format('create policy shared_rows on %I for select to atlas_tenant using (%s)', one.name, visible);
    end if;
  end loop;

  -- A row of one's own does not reach into another's: what it names must exist for its tenant too, and a token that a
  -- tenant makes is no operator's. Rows that are there already may outlive what they name.
  for one in
    select name, owns
    from (values
      ('jobs', $own$(jobs.host_id is null or exists (select from hosts o where o.id = jobs.host_id))
        and (jobs.server_instance_id is null or exists (select from server_instances o where o.id = jobs.server_instance_id))
        and (jobs.parent_run_id is null or exists (select from workflow_runs o where o.id = jobs.parent_run_id))$own$),
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
    execute format('drop policy if exists own_references on %I', one.name);
    execute format('create policy own_references on %I as restrictive for insert to atlas_tenant with check (%s)', one.name, one.owns);
  end loop;
  drop policy if exists own_role on api_tokens;
  create policy own_role on api_tokens as restrictive for update to atlas_tenant using (true) with check (role <> 'operator');

  for one in
    select tablename as name from pg_tables
    where schemaname = 'public' and tablename <> '_prisma_migrations' and tableowner <> 'atlas_owner'
  loop
    execute format('alter table %I owner to atlas_owner', one.name);
  end loop;
end $$;
select atlas_raise_walls();
