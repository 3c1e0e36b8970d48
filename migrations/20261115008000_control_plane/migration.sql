-- The control plane: sessions of people, answers kept for repeated calls, jobs for remote workers, and the second wall
-- between tenants.

-- A person's sign-in: an opaque cookie, good for as long as the token it was exchanged for is.
create table sessions (
  id           uuid primary key default gen_random_uuid(),
  token_id     uuid not null references api_tokens (id) on delete cascade,
  hash         bytea not null unique check (octet_length(hash) = 32),
  created_at   timestamptz(6) not null default clock_timestamp(),
  last_seen_at timestamptz(6) not null default clock_timestamp(),
  expires_at   timestamptz(6) not null,
  ended_at     timestamptz(6)
);
create index sessions_token_id_idx on sessions (token_id);
create index sessions_expires_at_idx on sessions (expires_at);

-- The first answer to a call that carries an Idempotency-Key, for those who call again. It commits with what the call did.
create table idempotency_keys (
  tenant_id    uuid not null,
  subject      text not null,
  key          text not null check (length(key) between 1 and 200),
  request_hash bytea not null check (octet_length(request_hash) = 32),
  status       int,
  body         bytea,
  created_at   timestamptz(6) not null default clock_timestamp(),
  primary key (tenant_id, subject, key)
);
create index idempotency_keys_created_at_idx on idempotency_keys (created_at);

-- Which statuses a tenant's jobs have: estimates of large counts need them together.
create statistics jobs_tenant_status (mcv) on tenant_id, status from jobs;

-- Jobs of one tenant for a worker outside: queued -> running, each under a lease of its own.
-- Rows: c claimed; x the gate is closed; b someone else is counting, ask again. No row: nothing is due, or a limit holds it.
-- Looks at the first jobs of its types and at the tenant's oldest; only where neither holds one, at everything of its types.
create function atlas_remote_claim(p_claimant text, p_tenant uuid, p_types text[], p_limit int, p_lease float8) returns table (
  kind "char", id uuid, tenant_id uuid, job_type text, input jsonb, attempt_count int, retry_count int, max_retries int,
  lost_count int, timeout_seconds int, definition_id uuid, parent_run_id uuid, correlation_id text
) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  seen constant int := 2000;
  cap int := (select (t.limits->>'in_flight')::int from tenants t where t.id = p_tenant);
  found_ids uuid[];
  best record;
  most int;
  taken int := 0;
begin
  if not atlas_claim_open(null) then
    kind := 'x';
    return next;
    return;
  end if;
  perform atlas_promote(200);
  found_ids := array(
    select c.id from (
      select a.id, a.priority, a.created_at
      from unnest(p_types) y(job_type)
      cross join lateral (
        select j.id, j.tenant_id, j.priority, j.created_at from jobs j
        where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful and j.job_type = y.job_type
        order by j.priority desc, j.created_at limit seen) a
      where a.tenant_id = p_tenant
      union
      select a.id, a.priority, a.created_at
      from unnest(p_types) y(job_type)
      cross join lateral (
        select j.id, j.priority, j.created_at from jobs j
        where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and j.careful
          and j.tenant_id = p_tenant and j.job_type = y.job_type
        order by j.priority desc, j.created_at limit p_limit) a
      union
      select b.id, b.priority, b.created_at
      from (select * from jobs j where j.tenant_id = p_tenant and j.status = 'queued' order by j.id limit seen) b
      where b.next_retry_at is null and b.host_id is null and b.job_type = any (p_types)) c
    order by c.priority desc, c.created_at limit 4 * p_limit);
  if cardinality(found_ids) = 0 then
    found_ids := array(
      select j.id from jobs j
      where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
        and j.job_type = any (p_types) and j.tenant_id = p_tenant
      limit p_limit);
  end if;
  for best in
    select j.id, j.job_type, j.lost_count from jobs j
    where j.id = any (found_ids) and j.status = 'queued' and j.next_retry_at is null
    order by j.priority desc, j.created_at
    for update skip locked
  loop
    exit when taken >= p_limit;
    -- A job that two workers were lost with is handed out alone.
    continue when best.lost_count >= 2 and taken > 0;
    most := (select y.concurrency from job_types y where y.key = best.job_type);
    if cap is not null or most is not null then
      if not pg_try_advisory_xact_lock(42712, 0) then
        if taken = 0 then
          kind := 'b';
          return next;
        end if;
        return;
      end if;
      exit when (select count(*) from jobs r where r.status = 'running' and r.tenant_id = p_tenant) >= cap;
      continue when (select count(*) from jobs r where r.status = 'running' and r.job_type = best.job_type) >= most;
    end if;
    return query
    update jobs
    set status = 'running', started_at = clock_timestamp(), updated_at = clock_timestamp(), claimed_by = p_claimant,
        attempt_count = attempt_count + 1, lease_expires_at = clock_timestamp() + p_lease * interval '1 second'
    where id = best.id and status = 'queued'
    returning 'c'::"char", id, tenant_id, job_type, input, attempt_count, retry_count, max_retries, lost_count, timeout_seconds,
      definition_id, parent_run_id, correlation_id;
    taken := taken + 1;
    exit when best.lost_count >= 2;
  end loop;
end $$;

-- How many rows the planner expects of one tenant and status (or dead_letter), or of all tenants: for counts too large to
-- be counted.
create function atlas_estimate(p_tenant uuid, p_status text) returns bigint language plpgsql volatile as $$
declare
  plan jsonb;
begin
  execute format('explain (format json) select from jobs where %s%s',
    case when p_status = 'dead_letter' then 'dead_lettered_at is not null' else format('status = %L', p_status) end,
    case when p_tenant is not null then format(' and tenant_id = %L', p_tenant) else '' end) into plan;
  return (plan->0->'Plan'->>'Plan Rows')::bigint;
end $$;

-- The second wall. Atlas's programs act as atlas_engine and see everything; a request of a tenant acts as atlas_tenant, and the
-- setting atlas.tenant, which lasts for its transaction, says whose rows exist for it. Every table that has a tenant is
-- behind the wall, for its owner too. The function may be run again, by whoever owns the tables: `atlas doctor` asks for
-- that where the roles came after the tables.
create function atlas_raise_walls() returns void language plpgsql set search_path = public, pg_temp as $$
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

  for one in
    select tablename as name from pg_tables
    where schemaname = 'public' and tablename <> '_prisma_migrations' and tableowner <> 'atlas_owner'
  loop
    execute format('alter table %I owner to atlas_owner', one.name);
  end loop;
end $$;
select atlas_raise_walls();
