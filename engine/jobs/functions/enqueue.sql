-- Enqueues one job from any language, in the caller's transaction: `select * from atlas.enqueue('acme', 'report.build',
-- '{"month": 3}')`; docs/jobs.md describes every argument. It refuses what it could only do halfway: jobs with secrets, jobs of
-- hosts and workflow runs. A command's job carries its definition, as it does from everywhere else.
create or replace function enqueue(
  tenant text, job_type text, input jsonb default '{}', priority int default 0, run_at timestamptz default null,
  max_retries int default null, dedupe_key text default null, correlation_id text default null, source text default 'manual',
  source_ref text default null, actor text default session_user,
  out id uuid, out deduplicated boolean
) language plpgsql volatile
set search_path from current as $$
#variable_conflict use_variable
declare
  owner uuid;
  found_id uuid;
  kind text := canonical_type(enqueue.job_type);
  command job_definitions;
  meta jsonb := jsonb_build_object('job_type', enqueue.job_type);
begin
  select t.id into owner from tenants t where t.slug = enqueue.tenant or t.id::text = enqueue.tenant;
  if owner is null then
    raise exception 'there is no tenant %', enqueue.tenant using errcode = 'AT404', detail = enqueue.tenant;
  end if;
  if jsonb_typeof(enqueue.input) <> 'object' then
    raise exception 'the input of a job is a JSON object, not %', jsonb_typeof(enqueue.input) using errcode = 'AT422';
  end if;
  if octet_length(enqueue.input::text) > input_limit(enqueue.job_type) then
    raise exception 'the input of a % job is at most % bytes', enqueue.job_type, input_limit(enqueue.job_type)
      using errcode = 'AT422';
  end if;
  -- What needs more than an insert is made by those who can do it: secrets are encrypted outside of the database.
  if kind in ('SERVER_START', 'SERVER_STOP', 'SERVER_RESTART', 'ENGINE_RUN')
     or exists (select from job_types y where y.key = kind and jsonb_path_exists(y.input_schema, '$.**."x-secret" ? (@ == true)')) then
    raise exception 'jobs of the type % are not made by enqueue', kind
      using errcode = 'AT422', hint = 'Enqueue them over the API, by the command line or by the Python client.';
  end if;
  select * into command from job_definitions d where d.key = kind;
  if kind = 'EMAIL_SEND' or command.id is not null or exists (select from job_types y where y.key = kind and y.audit_content) then
    meta := meta || '{"input_sha256": null}';
  end if;
  if command.is_active = false then
    raise exception 'the definition % is disabled', kind using errcode = 'AT422', hint = 'An operator can make it active again.';
  end if;
  id := gen_random_uuid();
  select e.id into found_id from enqueue_many(
    'user', enqueue.actor, false, array[id], array[owner], array[kind],
    array[enqueue.input], array[meta], null,
    p_priority => array[enqueue.priority], p_run_at => array[enqueue.run_at],
    p_max_retries => array[enqueue.max_retries],
    p_dedupe_key => case when enqueue.dedupe_key is not null then array[
      case when length(enqueue.dedupe_key) > 200 then encode(sha256(convert_to(enqueue.dedupe_key, 'UTF8')), 'hex')
           else enqueue.dedupe_key end] end,
    p_dedupe_hash => case when enqueue.dedupe_key is not null then
      array[sha256(convert_to(enqueue.dedupe_key, 'UTF8'))] end,
    p_correlation => array[enqueue.correlation_id], p_source => array[enqueue.source],
    p_source_ref => array[enqueue.source_ref], p_definition => array[command.id]) e;
  deduplicated := found_id is not null;
  id := coalesce(found_id, id);
end $$;
