-- Workflows: events, declared documents, intents, runs and their steps, approvals, policy.
--
-- An intent, the run it becomes and the job row that carries the run have one id. A run has no status of its own: the job
-- row is the truth, and the view workflow_run_states reads it. Nothing here has a foreign key to jobs: a key check per step
-- would lock rows in the hot path, so a trigger on the deletion of jobs takes their runs along instead.
--
-- Advisory locks besides those of the jobs:
--   (42713, hash of tenant and name) an event's name: shared by those who publish it, exclusive for runs that begin to wait
--   (42714, hash of tenant)          a tenant's policy: one decision at a time where rules count
-- Order: gate, worker, event names, job rows, everything else, audit.

create type intent_status as enum (
  'draft', 'validating', 'queued', 'executed', 'failed', 'blocked', 'awaiting_human', 'rejected');
create type workflow_kind as enum ('code', 'declared');
create type step_kind as enum ('step', 'job', 'child', 'sleep', 'event', 'approval', 'value', 'failure', 'undo');
create type step_status as enum ('waiting', 'retrying', 'succeeded', 'failed');
create type approval_kind as enum ('intent', 'step');
create type approval_status as enum ('pending', 'approved', 'rejected', 'expired', 'canceled');
create type policy_effect as enum ('allow', 'review', 'block');

-- What happened. `seq` is the order in which events of one name are seen; an event with a run_id is a signal to that run alone.
create table events (
  id             uuid primary key default gen_random_uuid(),
  seq            bigint not null generated always as identity,
  tenant_id      uuid not null,
  name           text not null check (length(name) between 1 and 200),
  context        jsonb not null default '{}' check (jsonb_typeof(context) = 'object'),
  run_id         uuid,
  correlation_id text,
  created_by     text not null,
  created_at     timestamptz(6) not null default clock_timestamp(),
  -- When the triggers on events looked at it.
  handled_at     timestamptz(6)
);
create index events_by_name on events (tenant_id, name, seq);
create index events_unhandled on events (seq) where handled_at is null and run_id is null;

-- The last event's number: what comes later has a greater one.
create function atlas_event_cursor() returns bigint language sql volatile as $$
  select case when is_called then last_value else 0 end from events_seq_seq
$$;

create table workflows (
  id           uuid primary key default gen_random_uuid(),
  -- Null: every tenant's.
  tenant_id    uuid,
  key          text not null check (length(key) between 1 and 200),
  -- 0 for those in code: the code itself is their version.
  version      int not null,
  kind         workflow_kind not null,
  description  text not null default '',
  input_schema jsonb not null default '{}',
  document     jsonb,
  is_enabled   boolean not null default true,
  created_by   text not null,
  created_at   timestamptz(6) not null default clock_timestamp(),
  last_seen_at timestamptz(6) not null default clock_timestamp(),
  constraint workflows_declared_has_a_document check ((kind = 'declared') = (document is not null)),
  constraint workflows_key unique nulls not distinct (key, tenant_id, version)
);

create table intents (
  id             uuid primary key default gen_random_uuid(),
  tenant_id      uuid not null,
  workflow       text not null check (length(workflow) between 1 and 200),
  input          jsonb not null default '{}',
  -- Of the input's text as Postgres writes it: what an approval is bound to.
  input_hash     bytea not null,
  status         intent_status not null default 'draft',
  reason         text,
  -- The rule that decided and the figures it saw.
  decision       jsonb not null default '{}',
  spend_cents    int not null default 0 check (spend_cents >= 0),
  priority       int not null default 0,
  source         job_source not null default 'manual',
  source_ref     text,
  correlation_id text,
  requested_by   text not null check (requested_by <> ''),
  events_from    bigint not null default atlas_event_cursor(),
  forked_from    uuid,
  forked_step    text,
  claimed_at     timestamptz(6),
  queued_at      timestamptz(6),
  created_at     timestamptz(6) not null default clock_timestamp(),
  updated_at     timestamptz(6) not null default clock_timestamp()
) with (fillfactor = 70);
create index intents_draft on intents (created_at) where status = 'draft';
create index intents_validating on intents (claimed_at) where status = 'validating';
create index intents_tenant on intents (tenant_id, id);
create index intents_accepted on intents (tenant_id, queued_at) where queued_at is not null;

create table workflow_runs (
  id            uuid primary key,
  tenant_id     uuid not null,
  workflow      text not null,
  version       int not null default 0,
  -- The declared document it keeps to its end; null for workflows in code.
  workflow_id   uuid,
  requested_by  text not null,
  parent_run_id uuid,
  forked_from   uuid,
  -- Events after this number may end its waits.
  events_from   bigint not null default atlas_event_cursor(),
  created_at    timestamptz(6) not null default clock_timestamp()
);
create index workflow_runs_tenant on workflow_runs (tenant_id, id);

-- One row per step of a run: its place is its branch and its position in that branch.
create table workflow_steps (
  run_id       uuid not null,
  branch       text not null,
  position     int not null,
  tenant_id    uuid not null,
  name         text not null,
  kind         step_kind not null,
  status       step_status not null,
  attempts     int not null default 1,
  started_at   timestamptz(6) not null default clock_timestamp(),
  finished_at  timestamptz(6),
  -- When a wait ends by itself, or a retry is due.
  wake_at      timestamptz(6),
  child_id     uuid,
  approval_id  uuid,
  event_id     uuid,
  event_cursor bigint,
  event_name   text,
  event_match  jsonb,
  input        jsonb,
  output       jsonb,
  error        jsonb,
  primary key (run_id, branch, position)
) with (autovacuum_vacuum_insert_scale_factor = 0.1);
create index workflow_steps_events on workflow_steps (tenant_id, event_name) where status = 'waiting' and event_name is not null;

create table approvals (
  id           uuid primary key default gen_random_uuid(),
  tenant_id    uuid not null,
  -- The run that asks, or the intent under review: they have one id.
  run_id       uuid not null,
  kind         approval_kind not null,
  step         text,
  title        text not null,
  detail       jsonb not null default '{}',
  input_hash   bytea not null,
  requested_by text not null,
  status       approval_status not null default 'pending',
  expires_at   timestamptz(6) not null,
  decided_at   timestamptz(6),
  decided_by   text,
  comment      text,
  created_at   timestamptz(6) not null default clock_timestamp(),
  constraint approvals_decided_is_whole check ((decided_at is null) = (status = 'pending'))
);
create index approvals_pending on approvals (expires_at) where status = 'pending';
create index approvals_run on approvals (run_id);
create index approvals_tenant on approvals (tenant_id, id);

-- A rule applies when the workflow fits and everything it names is exceeded; the strictest that applies decides.
create table policy_rules (
  id                  uuid primary key default gen_random_uuid(),
  -- Null: for every tenant.
  tenant_id           uuid,
  label               text not null check (label <> ''),
  effect              policy_effect not null,
  -- Patterns with * and ?.
  workflow            text not null default '*',
  except_workflows    text[] not null,
  spend_above_cents   int check (spend_above_cents >= 0),
  spend_per_day_cents int check (spend_per_day_cents >= 0),
  runs_per_day        int check (runs_per_day >= 0),
  is_enabled          boolean not null default true,
  created_by          text not null,
  created_at          timestamptz(6) not null default clock_timestamp(),
  updated_at          timestamptz(6) not null default clock_timestamp(),
  constraint policy_rules_label unique nulls not distinct (label, tenant_id)
);

-- Runs as they stand, told by their job rows.
create view workflow_run_states with (security_invoker = true) as
select r.id, r.tenant_id, r.workflow, r.version, r.workflow_id, r.requested_by, r.parent_run_id, r.forked_from, r.created_at,
  case when j.status = 'queued' and j.next_retry_at > clock_timestamp() then 'waiting' else j.status::text end as status,
  j.input->'input' as input, j.output, j.error, j.attempt_count, j.claimed_by, j.correlation_id, j.source::text as source, j.source_ref,
  case when j.next_retry_at < '9999-01-01' then j.next_retry_at end as wakes_at, j.cancel_requested_at, j.finished_at
from workflow_runs r
join jobs j on j.id = r.id;

-- Runs find the children they wait for, or must stop.
create index jobs_children on jobs (parent_run_id) where parent_run_id is not null;

-- Stores an event and wakes the runs that wait for it, in the caller's transaction. Answers how many.
-- Holding the name shared, it excludes runs that begin to wait for it at this moment: they come before, and are seen here, or
-- after, and see the event. A run at work is left alone: it looks for events itself when it suspends.
create function atlas_publish(
  p_id uuid, p_tenant uuid, p_name text, p_context jsonb, p_run uuid, p_by text, p_correlation text
) returns int language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  woken uuid[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'publishing an event needs READ COMMITTED, not %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state', hint = 'A run that began to wait after this transaction did would not be seen.';
  end if;
  if not exists (select from tenants where id = p_tenant) then
    raise exception 'there is no tenant %', p_tenant using errcode = 'AT404', detail = p_tenant::text;
  end if;
  perform pg_advisory_xact_lock_shared(42713, hashtext(p_tenant::text || ' ' || p_name));
  insert into events (id, tenant_id, name, context, run_id, created_by, correlation_id)
  values (p_id, p_tenant, p_name, p_context, p_run, p_by, p_correlation);
  woken := array(
    select j.id from jobs j
    where j.id = any (array(
        select s.run_id from workflow_steps s
        where s.tenant_id = p_tenant and s.event_name = p_name and s.status = 'waiting' and s.event_id is null
          and p_context @> s.event_match and (p_run is null or s.run_id = p_run)))
      and j.status = 'queued'
    order by j.id for update);
  if cardinality(woken) > 0 then
    -- An event ends one wait of a run: the oldest.
    update workflow_steps s set event_id = p_id
    from (
      select distinct on (w.run_id) w.run_id, w.branch, w.position
      from workflow_steps w
      where w.run_id = any (woken) and w.event_name = p_name and w.status = 'waiting' and w.event_id is null
        and p_context @> w.event_match
      order by w.run_id, w.started_at, w.branch, w.position) o
    where s.run_id = o.run_id and s.branch = o.branch and s.position = o.position;
    update jobs set next_retry_at = null where id = any (woken) and status = 'queued' and next_retry_at is not null;
    perform pg_notify('atlas_jobs', '');
  end if;
  perform pg_notify('atlas_events', '');
  return cardinality(woken);
end $$;

-- Writes the outcomes of steps of runs that this worker drives, many at once. Holding the worker's key shared, no reaper can
-- give its runs to another before this commits, so that reading the job rows is fence enough.
-- Answers the numbers of those refused because their run is lost, and whether the gate is open.
-- busy: a reaper is looking at this worker right now; ask again.
-- p_again: the answer to the same call was lost; what is stored already counts as done.
-- Arrays that say the usual throughout (the run's own line, a step, that succeeded at its first attempt) are passed as null.
create function atlas_checkpoint(
  p_worker text, p_again boolean, p_run uuid[], p_attempt int[], p_branch text[], p_position int[], p_name text[], p_kind text[],
  p_status text[], p_attempts int[], p_seconds float8[], p_input jsonb[], p_output jsonb[], p_error jsonb[], p_known boolean[],
  p_reset uuid[],
  out is_open boolean, out busy boolean, out lost int[]
) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set jit = off as $$
declare
  written int := 0;
begin
  busy := not pg_try_advisory_xact_lock_shared(42711, hashtext(p_worker));
  if busy then
    return;
  end if;
  if not exists (
    select from job_workers w where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp())
  then
    lost := array(select generate_subscripts(p_run, 1));
    return;
  end if;
  -- The fence stands in a case, opaque to the planner, so that the key is the only way in.
  if p_known is null and not p_again then
    insert into workflow_steps (run_id, branch, position, tenant_id, name, kind, status, attempts, started_at, finished_at, input,
      output, error)
    select u.run_id, coalesce(u.branch, ''), u.position, j.tenant_id, u.name, coalesce(u.kind, 'step')::step_kind,
      coalesce(u.status, 'succeeded')::step_status, coalesce(u.attempts, 1),
      clock_timestamp() - u.seconds * interval '1 second', clock_timestamp(), u.input, u.output, u.error
    from unnest(p_run, p_attempt, p_branch, p_position, p_name, p_kind, p_status, p_attempts, p_seconds, p_input, p_output, p_error)
      u(run_id, attempt, branch, position, name, kind, status, attempts, seconds, input, output, error)
    join jobs j on j.id = u.run_id
      and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = u.attempt then true else false end;
    get diagnostics written = row_count;
  else
    with u as materialized (
      select u.*, j.tenant_id
      from unnest(p_run, p_attempt, p_branch, p_position, p_name, p_kind, p_status, p_attempts, p_seconds, p_input, p_output, p_error,
        p_known)
        u(run_id, attempt, branch, position, name, kind, status, attempts, seconds, input, output, error, known)
      join jobs j on j.id = u.run_id
        and case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = u.attempt then true else false end),
    ended as (
      update workflow_steps s
      set status = coalesce(u.status, 'succeeded')::step_status, attempts = coalesce(u.attempts, greatest(s.attempts, 1)),
          finished_at = clock_timestamp(), wake_at = null, output = u.output, error = u.error
      from u
      where u.known and s.run_id = u.run_id and s.branch = coalesce(u.branch, '') and s.position = u.position
        and s.status in ('waiting', 'retrying')),
    begun as (
      insert into workflow_steps (run_id, branch, position, tenant_id, name, kind, status, attempts, started_at, finished_at, input,
        output, error)
      select u.run_id, coalesce(u.branch, ''), u.position, u.tenant_id, u.name, coalesce(u.kind, 'step')::step_kind,
        coalesce(u.status, 'succeeded')::step_status, coalesce(u.attempts, 1),
        clock_timestamp() - u.seconds * interval '1 second', clock_timestamp(), u.input, u.output, u.error
      from u where u.known is not true
      on conflict (run_id, branch, position) do nothing)
    select count(*) into written from u;
  end if;
  if written < cardinality(p_run) then
    select array_agg(u.n) into lost
    from unnest(p_run, p_attempt) with ordinality u(run_id, attempt, n)
    left join jobs j on j.id = u.run_id
    where case when j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = u.attempt then false else true end;
  end if;
  if p_reset is not null then
    -- A run that gets on is as good as new: no retries used, no losses counted.
    update jobs set retry_count = 0, lost_count = 0, careful = false
    where id = any (p_reset) and status = 'running' and claimed_by = p_worker;
  end if;
  is_open := exists (select from system_state where key = 'atlas_online' and value->>'online' = 'true');
end $$;

-- What runs have recorded, and what has come of what they wait for. A function only for its plan: the keys, whatever the
-- statistics say.
create function atlas_load_runs(p_runs uuid[]) returns table (
  run_id uuid, branch text, "position" int, name text, kind text, status text, attempts int, output jsonb, error jsonb, due boolean,
  child_id uuid, child_status text, child_output jsonb, child_error jsonb, event_name text, event_context jsonb,
  approval_status text, approval_by text, approval_comment text
) language sql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
  select s.run_id, s.branch, s.position, s.name, s.kind::text, s.status::text, s.attempts, s.output, s.error,
    coalesce(s.wake_at <= clock_timestamp(), false), s.child_id, c.status::text, c.output, c.error, s.event_name, e.context,
    a.status::text, a.decided_by, a.comment
  from workflow_steps s
  left join jobs c on c.id = s.child_id and s.status = 'waiting'
  left join events e on e.id = s.event_id and s.status = 'waiting'
  left join approvals a on a.id = s.approval_id and s.status = 'waiting'
  where s.run_id = any (p_runs)
$$;

-- The first half of suspending runs: what may wake them is locked out, and each answers whether it may suspend.
-- Verdicts: held; lost; canceled, it was asked to stop; busy, ask again. certain: nobody is publishing an event it waits for.
create function atlas_hold_runs(p_worker text, p_id uuid[], p_attempt int[], p_event_run uuid[], p_event_key text[])
returns table (id uuid, verdict text, certain boolean) language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  alive boolean;
  busy_keys text[];
begin
  if not pg_try_advisory_xact_lock_shared(42711, hashtext(p_worker)) then
    return query select u.id, 'busy', false from unnest(p_id) u(id);
    return;
  end if;
  if p_event_key is not null then
    -- Never waits: someone's long transaction may be publishing. Such a run looks again in a moment.
    busy_keys := array(
      select k.key from (select distinct unnest(p_event_key) order by 1) k(key)
      where not pg_try_advisory_xact_lock(42713, hashtext(k.key)));
  end if;
  alive := exists (
    select from job_workers w
    where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp());
  perform from jobs j where j.id = any (p_id) order by j.id for update;
  return query
  select u.id,
    case when not alive or j.id is null or j.status <> 'running' or j.claimed_by <> p_worker or j.attempt_count <> u.attempt then 'lost'
         when j.cancel_requested_at is not null then 'canceled'
         else 'held' end,
    busy_keys is null or not exists (
      select from unnest(p_event_run, p_event_key) e(run_id, key) where e.run_id = u.id and e.key = any (busy_keys))
  from unnest(p_id, p_attempt) u(id, attempt)
  left join jobs j on j.id = u.id;
end $$;

-- The second half: the waits are stored by now. Looks whether what is awaited has come already, and queues the runs for when
-- they are due. The rows are held by the caller, so that what comes later finds them queued.
create function atlas_settle_runs(p_id uuid[], p_certain boolean[], p_at_once boolean[]) returns void language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  cursor_now bigint := atlas_event_cursor();
  wait record;
  found_id uuid;
  some_due boolean;
begin
  for wait in
    select s.run_id, s.branch, s.position, s.tenant_id, s.event_name, s.event_match, s.event_cursor,
      p_certain[array_position(p_id, s.run_id)] as certain
    from workflow_steps s
    where s.run_id = any (p_id) and s.status = 'waiting' and s.event_name is not null and s.event_id is null
    order by s.run_id, s.started_at, s.branch, s.position
  loop
    select e.id into found_id from events e
    where e.tenant_id = wait.tenant_id and e.name = wait.event_name and e.seq > wait.event_cursor
      and (e.run_id is null or e.run_id = wait.run_id) and e.context @> wait.event_match
      and not exists (select from workflow_steps x where x.run_id = wait.run_id and x.event_id = e.id)
    order by e.seq limit 1;
    if found_id is not null or (wait.certain and cursor_now > wait.event_cursor) then
      update workflow_steps s
      set event_id = found_id, event_cursor = case when wait.certain then cursor_now else s.event_cursor end
      where s.run_id = wait.run_id and s.branch = wait.branch and s.position = wait.position;
    end if;
  end loop;
  with queued as (
    update jobs j
    set status = 'queued', claimed_by = null, lease_expires_at = null, updated_at = clock_timestamp(),
        next_retry_at = case when u.at_once or w.arrived or w.wake <= clock_timestamp() then null
                             when u.certain then coalesce(w.wake, '9999-12-31 00:00:00+00')
                             else least(w.wake, clock_timestamp() + interval '0.5 second') end
    from unnest(p_id, p_certain, p_at_once) u(id, certain, at_once)
    cross join lateral (
      select min(s.wake_at) as wake,
        coalesce(bool_or(s.event_id is not null
          or (s.child_id is not null and not exists (select from jobs c where c.id = s.child_id and c.status in ('queued', 'running')))
          or (s.approval_id is not null and exists (select from approvals a where a.id = s.approval_id and a.status <> 'pending'))),
          false) as arrived
      from workflow_steps s
      where s.run_id = u.id and s.status in ('waiting', 'retrying')) w
    where j.id = u.id and j.status = 'running'
    returning j.next_retry_at)
  select bool_or(q.next_retry_at is null) into some_due from queued q;
  if some_due then
    perform pg_notify('atlas_jobs', '');
  end if;
end $$;

-- What else ends with a run: its intent, its open approvals and, if it was canceled, its children.
-- Called in the transaction in which the job rows ended.
create function atlas_runs_ended(p_ids uuid[]) returns void language plpgsql volatile as $$
declare
  stopped uuid[];
  children uuid[];
begin
  update intents i
  set status = case when j.status = 'succeeded' then 'executed' else 'failed' end::intent_status, updated_at = clock_timestamp(),
      reason = case when j.status = 'canceled' then 'its run was canceled' else left(j.error->>'message', 500) end
  from jobs j
  where j.id = i.id and i.id = any (p_ids) and i.status = 'queued' and j.status in ('succeeded', 'failed', 'canceled');
  update approvals set status = 'canceled', decided_at = clock_timestamp(), decided_by = 'engine'
  where run_id = any (p_ids) and status = 'pending';
  stopped := array(select id from jobs where id = any (p_ids) and status = 'canceled');
  if cardinality(stopped) > 0 then
    children := array(select id from jobs where parent_run_id = any (stopped) and status in ('queued', 'running'));
    if cardinality(children) > 0 then
      perform atlas_cancel(children, null, 'system', 'engine', '{"reason": "the run that started it was canceled"}');
    end if;
  end if;
end $$;

-- A run that an operator opens again goes on from the step that failed: its recorded failure is forgotten.
create function atlas_runs_reopened(p_ids uuid[]) returns void language plpgsql volatile as $$
begin
  delete from workflow_steps s
  using jobs j
  cross join lateral jsonb_to_recordset(case when jsonb_typeof(j.error->'steps') = 'array' then j.error->'steps' else '[]' end)
    f(branch text, position int)
  where j.id = any (p_ids) and s.run_id = j.id and s.branch = f.branch and s.position = f.position and s.status = 'failed';
  -- Waits that a cancel cut off begin anew: their children and approvals were canceled with the run.
  delete from workflow_steps s
  where s.run_id = any (p_ids) and s.status = 'waiting'
    and (exists (select from jobs c where c.id = s.child_id and c.status = 'canceled')
      or exists (select from approvals a where a.id = s.approval_id and a.status = 'canceled'));
  update intents set status = 'queued', reason = null, updated_at = clock_timestamp()
  where id = any (p_ids) and status = 'failed';
end $$;

-- Jobs that are deleted take their runs along; a run that waited for one of them is woken and finds it gone.
create function atlas_jobs_deleted() returns trigger language plpgsql as $$
declare
  runs uuid[] := array(select id from gone where job_type = 'ENGINE_RUN');
  children uuid[];
begin
  if cardinality(runs) > 0 then
    delete from workflow_steps where run_id = any (runs);
    delete from workflow_runs where id = any (runs);
    update approvals set status = 'canceled', decided_at = clock_timestamp(), decided_by = 'engine'
    where run_id = any (runs) and status = 'pending';
    update intents set status = 'failed', reason = 'its run was deleted', updated_at = clock_timestamp()
    where id = any (runs) and status = 'queued';
    children := array(select id from jobs where parent_run_id = any (runs) and status in ('queued', 'running'));
    if cardinality(children) > 0 then
      perform atlas_cancel(children, null, 'system', 'engine', '{"reason": "the run that started it was deleted"}');
    end if;
  end if;
  perform atlas_wake_parents(array(select distinct parent_run_id from gone where parent_run_id is not null));
  return null;
end $$;
create trigger jobs_deleted after delete on jobs
  referencing old table as gone for each statement execute function atlas_jobs_deleted();

-- draft -> validating, and those that someone began and never ended. Under the gate like every start; null: it is closed.
-- Writes when the engine last looked, which is what tells a silent engine from an idle one.
create function atlas_claim_intents(p_engine text, p_limit int, p_stuck float8) returns uuid[] language plpgsql volatile
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  picked uuid[];
  taken uuid[];
begin
  if not atlas_claim_open(null) then
    return null;
  end if;
  if exists (select from system_state where key = 'atlas_online' and value->>'engine_enabled' = 'false') then
    return null;
  end if;
  -- At most once a second, and never waiting for another engine that writes it.
  if not exists (select from system_state where key = 'engine_tick' and updated_at > clock_timestamp() - interval '1 second') then
    insert into system_state (key, value, updated_by) values ('engine_tick', '{}', p_engine) on conflict (key) do nothing;
    update system_state
    set value = jsonb_build_object('last_tick_at', clock_timestamp(), 'by', p_engine), updated_at = clock_timestamp(),
        updated_by = p_engine
    where key = (select key from system_state where key = 'engine_tick' for update skip locked);
  end if;
  picked := array(select id from intents where status = 'draft' order by created_at limit p_limit for update skip locked);
  picked := picked || array(
    select id from intents
    where status = 'validating' and claimed_at < clock_timestamp() - p_stuck * interval '1 second'
    order by claimed_at limit p_limit for update skip locked);
  with claimed as (
    update intents set status = 'validating', claimed_at = clock_timestamp(), updated_at = clock_timestamp()
    where id = any (picked) and status in ('draft', 'validating')
    returning id, tenant_id, workflow),
  events as (
    select c.id, c.tenant_id, jsonb_build_object('workflow', c.workflow) as meta from claimed c),
  aud as (
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    select e.tenant_id, 'system', p_engine, 'ENGINE_CLAIMED_INTENT', 'intent', e.id, e.meta,
      atlas_audit_body(e.tenant_id, 'system', p_engine, 'info', 'ENGINE_CLAIMED_INTENT', 'intent', e.id::text, '', e.meta)
    from events e)
  select array_agg(id) into taken from claimed;
  return coalesce(taken, '{}');
end $$;

do $$
begin
  if exists (select from pg_roles where rolname = 'atlas_engine') then
    grant select, insert, update, delete on events, workflows, intents, workflow_runs, workflow_steps, approvals, policy_rules
      to atlas_engine;
    grant select on workflow_run_states to atlas_engine;
    grant usage, select on sequence events_seq_seq to atlas_engine;
  end if;
end $$;
