-- Enqueues any number of jobs: insert, dedupe, audit rows and wake-up in one call. The ids come from the caller.
-- Returns only what differs from "created as asked": jobs that already existed under an active dedupe key.
-- With p_coalesce false, a key held by a job of another type or input is refused (errcode AT409, detail: the holder).
-- A tenant, type or meta that all of them share is passed as an array of one; the retries of a shared type are looked up once.
-- p_max_retries are those that jobs choose, p_type_retries those of their types where the caller knows them.
-- p_limit_by, where the caller knows it, says that the type of a job has a limit: by this key, or by none (''). Jobs under a limit of
-- their type or a rate of their tenant are held until a claim releases them, see release_limit.
-- An event whose meta has `input_sha256` comes without bytes, and gets the digest of its input.
-- Called by engine/jobs/new_jobs/new_job_columns.py and enqueue.
create or replace function enqueue_many(
  p_actor_type text, p_actor_id text, p_coalesce boolean,
  p_id uuid[], p_tenant uuid[], p_type text[], p_input jsonb[], p_meta jsonb[], p_body bytea[],
  p_priority int[] default null, p_delay float8[] default null, p_run_at timestamptz[] default null, p_max_retries int[] default null,
  p_dedupe_key text[] default null, p_dedupe_hash bytea[] default null, p_correlation text[] default null,
  p_source text[] default null, p_source_ref text[] default null, p_timeout int[] default null, p_definition uuid[] default null,
  p_host uuid[] default null, p_instance uuid[] default null, p_parent_run uuid[] default null,
  p_type_retries int[] default null, p_start_by timestamptz[] default null, p_expires_in float8[] default null,
  p_finish_by timestamptz[] default null, p_group uuid[] default null, p_limit_by text[] default null
) returns table (nth int, id uuid) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  every_tenant uuid := case when cardinality(p_tenant) = 1 then p_tenant[1] end;
  every_type text := case when cardinality(p_type) = 1 then p_type[1] end;
  every_meta jsonb := case when cardinality(p_meta) = 1 then p_meta[1] end;
  every_retries int := case when every_type is not null
    then coalesce(p_type_retries[1], (select y.max_retries from job_types y where y.key = every_type), 3) end;
  horizon constant uuid := history_horizon(1);
  old_ids constant uuid[] := array(select u.id from unnest(p_id) u(id) where u.id < horizon);
  stranger uuid;
  rated uuid[];
  some_have_limits boolean;
  limits uuid[];
  limit_keys text[];
  rates uuid[];
  rest int[];
  made int[];
  holder record;
begin
  select min(t.id::text) filter (where x.id is null), array_agg(x.id) filter (where x.limits ? 'rate'),
    p_limit_by is not null or exists (
      select from job_types y where (y.concurrency_key is not null or y.rate is not null) and y.key = any (p_type))
  into stranger, rated, some_have_limits
  from (select distinct unnest(p_tenant)) t(id)
  left join tenants x on x.id = t.id and x.removing_at is null and x.moving_at is null;
  if stranger is not null then
    perform refuse_moving(stranger);
    raise exception 'there is no tenant %, or it is being removed', stranger using errcode = 'AT404', detail = stranger::text;
  end if;

  if some_have_limits or rated is not null then
    select array_agg(l.id order by l.n), array_agg(l.key order by l.n), array_agg(l.rate order by l.n) into limits, limit_keys, rates
    from limits_of(p_tenant, p_type, p_input, p_limit_by, rated) l;
  end if;

  if old_ids <> '{}' then
    perform refuse_used_ids(old_ids);
  end if;

  for round in 1..20 loop
    with asked as materialized (
      select u.id, coalesce(u.tenant_id, every_tenant) as tenant_id, coalesce(u.job_type, every_type) as job_type, u.input,
        coalesce(u.meta, every_meta, '{}') as meta, u.body, u.priority, u.delay, u.run_at,
        coalesce(u.max_retries, u.type_retries, every_retries) as max_retries, u.max_retries is not null as retries_chosen,
        u.dedupe_key, u.dedupe_hash, u.correlation_id, u.source, u.source_ref,
        u.timeout_seconds, u.definition_id, u.host_id, u.server_instance_id, u.parent_run_id,
        -- the earliest of them; null without any
        least(u.start_by, statement_timestamp() + u.expires_in * interval '1 second', u.finish_by) as start_by, u.finish_by, u.group_id,
        u.limit_id, u.limit_key, u.rate_id, u.n
      from unnest(p_id, p_tenant, p_type, p_input, p_meta, p_body, p_priority, p_delay, p_run_at, p_max_retries, p_dedupe_key,
                  p_dedupe_hash, p_correlation, p_source, p_source_ref, p_timeout, p_definition, p_host, p_instance, p_parent_run,
                  p_type_retries, p_start_by, p_expires_in, p_finish_by, p_group, limits, limit_keys, rates)
        with ordinality
        u(id, tenant_id, job_type, input, meta, body, priority, delay, run_at, max_retries, dedupe_key,
          dedupe_hash, correlation_id, source, source_ref, timeout_seconds, definition_id, host_id, server_instance_id, parent_run_id,
          type_retries, start_by, expires_in, finish_by, group_id, limit_id, limit_key, rate_id, n)
      where rest is null or u.n = any (rest)),
    ins as (
      insert into jobs (id, tenant_id, job_type, input, priority, next_retry_at, scheduled_for, max_retries, retries_chosen, dedupe_key,
        dedupe_hash, correlation_id, source, source_ref, created_by, timeout_seconds, definition_id, host_id, server_instance_id, parent_run_id,
        start_by, finish_by, group_id, limit_id, limit_key, rate_id, held_by)
      select a.id, a.tenant_id, a.job_type, a.input, coalesce(a.priority, 0),
        case when a.delay > 0 then statement_timestamp() + a.delay * interval '1 second'
             when a.run_at > statement_timestamp() then a.run_at
             when a.limit_id is not null or a.rate_id is not null then '9999-12-31 00:00:00+00' end,
        case when a.delay > 0 then statement_timestamp() + a.delay * interval '1 second' else a.run_at end,
        coalesce(a.max_retries, (select y.max_retries from job_types y where y.key = a.job_type), 3), a.retries_chosen,
        a.dedupe_key, a.dedupe_hash, a.correlation_id,
        coalesce(a.source, 'manual')::job_source, a.source_ref, p_actor_id,
        a.timeout_seconds, a.definition_id, a.host_id, a.server_instance_id, a.parent_run_id,
        a.start_by, a.finish_by, a.group_id, a.limit_id, a.limit_key, a.rate_id, coalesce(a.limit_id, a.rate_id)
      from asked a
      on conflict (tenant_id, dedupe_hash) where dedupe_hash is not null and status in ('queued', 'running') do nothing
      returning id),
    aud as (
      insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
      select a.tenant_id, p_actor_type::actor_type, p_actor_id, 'JOB_CREATED', 'job', a.id, f.meta,
        coalesce(a.body, audit_body(a.tenant_id, p_actor_type, p_actor_id, 'info', 'JOB_CREATED', 'job', a.id::text, '', f.meta))
      from asked a
      cross join lateral (
        select case when a.meta ? 'input_sha256' then a.meta || jsonb_build_object('input_sha256', content_digest(a.input))
          else a.meta end as meta) f
      where p_dedupe_hash is null or a.id in (select i.id from ins i))
    select array_agg(a.n::int) into made from asked a where p_dedupe_hash is not null and a.id in (select i.id from ins i);
    if limits is not null and round = 1 then
      insert into limit_events (limit_id, tenant_id, priority, held_since)
      select distinct coalesce(l.id, l.rate), coalesce(l.tenant_id, every_tenant), coalesce(l.priority, 0), statement_timestamp()
      from unnest(limits, rates, p_tenant, p_priority) l(id, rate, tenant_id, priority) where coalesce(l.id, l.rate) is not null;
    end if;
    perform pg_notify(current_schema() || '_jobs', coalesce(case
      when every_tenant is null or every_type is null then null
      when p_priority is null then every_tenant::text || ' ' || every_type
      when p_priority[1] = all (p_priority) then every_tenant::text || '/' || p_priority[1] || ' ' || every_type end,
      places_of(p_tenant, p_type, p_priority)));
    if p_dedupe_hash is null or cardinality(made) = cardinality(p_id) then
      return;
    end if;

    -- What was not made is held by an active job, unless that job ended just now: then insert again.
    if rest is null then
      rest := array(select g from generate_subscripts(p_id, 1) g);
    end if;
    rest := array(select unnest(rest) except select unnest(made) order by 1);
    for holder in
      select r as n, j.id, j.input <> p_input[r] or j.job_type <> coalesce(p_type[r], every_type) as differs
      from unnest(rest) r
      join only jobs j on j.tenant_id = coalesce(p_tenant[r], every_tenant) and j.dedupe_hash = p_dedupe_hash[r] and j.status in ('queued', 'running')
    loop
      if holder.differs and not p_coalesce then
        raise exception 'the dedupe key is held by job % with another input', holder.id
          using errcode = 'AT409', detail = holder.id::text, hint = p_dedupe_key[holder.n];
      end if;
      nth := holder.n;
      id := holder.id;
      return next;
      rest := array_remove(rest, holder.n);
    end loop;
    exit when cardinality(rest) = 0;
  end loop;
  if cardinality(rest) > 0 then
    raise exception 'the dedupe key is changing hands too fast' using errcode = 'serialization_failure';
  end if;
end $$;
