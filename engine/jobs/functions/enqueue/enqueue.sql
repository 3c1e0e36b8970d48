-- Enqueues one job from any language, in the caller's transaction: `select * from atlas.enqueue('acme', 'report.build',
-- '{"month": 3}')`; docs/integrations.md describes every argument. It refuses what it could only do halfway: jobs with secrets, jobs
-- of hosts and workflow runs. A command's job carries its definition, as it does from everywhere else.
-- It runs as the owner of the tables, so that a login enqueues without a right to any of them; grant_enqueue lets a login call it.
-- The login of another application enqueues what enqueue_grants has for it. It is the actor itself, as `db:LOGIN`; the name that it
-- passes is in the event as `on_behalf_of`. Atlas's own logins name the actor; the event has the login beside it.
-- What is refused has the errcode AT403 (the grant), AT404 (the tenant), AT409 (the dedupe key) or AT422 (the message and the column name the argument).
-- Called by engine/jobs/new_jobs/enqueue_call.py.
create or replace function enqueue(
  tenant text, job_type text, input jsonb default '{}', priority int default 0, run_at timestamptz default null,
  max_retries int default null, dedupe_key text default null, correlation_id text default null, source text default 'manual',
  source_ref text default null, actor text default session_user, delay interval default null, timeout_seconds int default null,
  coalesced boolean default false, allow_unknown boolean default false, start_by timestamptz default null,
  expires_in interval default null, finish_by timestamptz default null,
  out id uuid, out deduplicated boolean
) language plpgsql volatile security definer
set search_path from current as $$
#variable_conflict use_variable
declare
  owner uuid;
  found_id uuid;
  kind constant text := canonical_type(enqueue.job_type);
  published job_types;
  command job_definitions;
  mistake record;
  is_own constant boolean := coalesce(pg_has_role(session_user, to_regrole(current_schema() || '_engine'), 'member'), false)
    or pg_has_role(session_user, current_user, 'member');
  who text := enqueue.actor;
  meta jsonb := jsonb_build_object('job_type', kind, 'login', session_user);
begin
  if not is_own then
    perform check_enqueue_grant(enqueue.tenant, kind);
    who := 'db:' || session_user;
    if enqueue.actor <> session_user then
      meta := meta || jsonb_build_object('on_behalf_of', left(enqueue.actor, 200));
    end if;
  end if;
  select t.id into owner from tenants t where (t.slug = enqueue.tenant or t.id::text = enqueue.tenant) and t.removing_at is null and t.moving_at is null;
  if owner is null then
    perform refuse_moving(t.id) from tenants t where t.slug = enqueue.tenant or t.id::text = enqueue.tenant;
    raise exception 'there is no tenant %, or it is being removed', enqueue.tenant using errcode = 'AT404', detail = coalesce(enqueue.tenant, '');
  end if;
  select * into published from job_types y where y.key = kind;
  select * into command from job_definitions d where d.key = kind;
  select m.field, m.reason, m.remedy into mistake from (values
    ('job_type', 'must have between 1 and 200 characters', '', coalesce(length(kind), 0) not between 1 and 200),
    -- The control, format and private characters and the separators of Unicode, which no name shows.
    ('job_type', 'contains a character that cannot be printed', '', kind ~ ('[\u0001-\u001f\u007f-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f'
      '\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb]')),
    -- What needs more than an insert is made by those who can do it: secrets are encrypted outside of the database.
    ('job_type', format('%L is not made by atlas.enqueue: it needs more than one statement', kind),
      case when kind = 'ENGINE_RUN' then 'Request the run over the API, by `atlas workflow run` or with request_workflow in Python.'
           else 'Enqueue it over the API, by the command line or with NewJob in Python.' end,
      kind in ('SERVER_START', 'SERVER_STOP', 'SERVER_RESTART', 'ENGINE_RUN', 'HTTP_CALL')
        or jsonb_path_exists(published.input_schema, '$.**."x-secret" ? (@ == true)')),
    ('job_type', format('%L is a disabled definition', kind), 'An operator can make it active again.', command.is_active = false),
    ('job_type', format('%L is not known', kind) || coalesce('; names like it are ' || nullif(array_to_string(case
        when published.key is null and command.id is null then near_types(kind) end, ', '), ''), ''),
      'Start a worker that has it, or let it wait for one with `allow_unknown` (`--allow-unknown`).',
      published.key is null and command.id is null and kind <> all (builtin_types()) and not enqueue.allow_unknown),
    ('input', 'is not a JSON object', 'Pass an object, such as ''{"month": 3}''.', coalesce(jsonb_typeof(enqueue.input) <> 'object', true)),
    ('input', format('is larger than %s KiB', input_limit(kind) / 1024), 'Store large data elsewhere and enqueue where to find it.',
      octet_length(enqueue.input::text) > input_limit(kind)),
    ('priority', 'is not between -1,000,000 and 1,000,000', '', enqueue.priority not between -1000000 and 1000000),
    ('max_retries', 'is not between 0 and 1,000', '', enqueue.max_retries not between 0 and 1000),
    ('timeout_seconds', 'is less than 1', '', enqueue.timeout_seconds < 1),
    ('delay', 'is longer than 3,660 days', '', enqueue.delay > interval '3660 days'),
    ('expires_in', 'is not between a microsecond and 3,660 days', '',
      enqueue.expires_in not between interval '1 microsecond' and interval '3660 days'),
    ('expires_in', 'cannot be combined with start_by', 'Give one of them.', enqueue.expires_in is not null and enqueue.start_by is not null),
    ('dedupe_key', 'is empty', '', enqueue.dedupe_key = ''),
    ('actor', 'is empty', '', coalesce(enqueue.actor, '') = ''),
    ('source', 'is always manual for the login of another application', 'Leave it out.',
      not is_own and coalesce(enqueue.source, '') <> 'manual'),
    ('source_ref', 'is not for the login of another application', 'Leave it out.', not is_own and enqueue.source_ref is not null),
    ('source', 'is not one of manual, event, schedule, workflow, system', '',
      coalesce(enqueue.source, '') not in ('manual', 'event', 'schedule', 'workflow', 'system'))
  ) m(field, reason, remedy, is_wrong) where m.is_wrong limit 1;
  if mistake is null and published.input_schema <> '{}' then
    select m.field, m.reason, format('The input of %s has the fields %s.', kind, input_fields(published.input_schema)) as remedy
    into mistake from schema_mistake(published.input_schema, enqueue.input) m
    where m.reason is not null;
  end if;
  if mistake.reason is not null then
    raise exception '%: %', mistake.field, mistake.reason using errcode = 'AT422', column = mistake.field, hint = mistake.remedy;
  end if;
  if kind = 'EMAIL_SEND' or command.id is not null or published.audit_content then
    meta := meta || '{"input_sha256": null}';
  end if;
  if enqueue.correlation_id is not null then
    meta := meta || jsonb_build_object('correlation_id', enqueue.correlation_id);
  end if;
  id := new_id();
  select e.id into found_id from enqueue_many(
    'user', who, enqueue.coalesced, array[id], array[owner], array[kind],
    array[enqueue.input], array[meta], null,
    p_priority => array[enqueue.priority], p_delay => array[extract(epoch from enqueue.delay)::float8],
    p_run_at => array[enqueue.run_at], p_max_retries => array[enqueue.max_retries], p_timeout => array[enqueue.timeout_seconds],
    p_dedupe_key => case when enqueue.dedupe_key is not null then array[
      case when length(enqueue.dedupe_key) > 200 then encode(sha256(convert_to(enqueue.dedupe_key, 'UTF8')), 'hex')
           else enqueue.dedupe_key end] end,
    p_dedupe_hash => case when enqueue.dedupe_key is not null then
      array[sha256(convert_to(enqueue.dedupe_key, 'UTF8'))] end,
    p_correlation => array[enqueue.correlation_id], p_source => array[enqueue.source],
    p_source_ref => array[enqueue.source_ref], p_definition => array[command.id],
    p_start_by => array[enqueue.start_by], p_expires_in => array[extract(epoch from enqueue.expires_in)::float8],
    p_finish_by => array[enqueue.finish_by]) e;
  deduplicated := found_id is not null;
  id := coalesce(found_id, id);
end $$;
