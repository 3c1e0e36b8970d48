-- The newest jobs whose content differs from their events: type, tenant or creator from JOB_CREATED, the digests of input and output where
-- events have them, the cost, the outputs of a run's steps, attempts that are missing, times that do not fit the status, effects in another state or with another
-- reference than their last event says, and a sent mail without its effect.
-- A snooze adds to the cost without an event. The steps of a run are as its end left them until it is retried.
-- Every claim counts an attempt and leaves a row, but for the last one of a job that runs or succeeded, and those of a run that was
-- suspended.
-- A retried job has the output of its last success. Across tenants: the whole installation is compared. SQL, because it
-- compares aggregates of two tables.
select w.id, w.wrong
from (
  select id, tenant_id, job_type, created_by, input, output, status, cost_cents, attempt_count, finished_at, dead_lettered_at from atlas.jobs order by id desc limit :limit
) j
cross join lateral (
  select
    (array_agg(a.meta order by a.id desc) filter (where a.action in ('JOB_CREATED', 'JOB_IMPORTED')))[1] as made,
    (array_agg(a.tenant_id order by a.id desc) filter (where a.action in ('JOB_CREATED', 'JOB_IMPORTED')))[1] as tenant_id,
    (array_agg(a.meta->>'output_sha256' order by a.id desc) filter (where a.meta ? 'output_sha256'))[1] as output,
    (array_agg(a.meta->>'job_cost_cents' order by a.id desc) filter (where a.meta ? 'job_cost_cents'))[1] as cost,
    (array_agg(a.meta->>'step_outputs_sha256' order by a.id desc) filter (where not a.meta ? 'undone_attempt'))[1] as steps,
    (array_agg(a.actor_id order by a.id desc) filter (where a.action = 'JOB_CREATED'))[1] as creator,
    bool_or(a.action = 'EMAIL_SENT') as mailed,
    jsonb_object_agg(a.meta->>'effect', jsonb_build_array(a.meta->>'effect_state', a.meta->>'reference') order by a.id) filter (where a.meta ? 'effect_state') as effects
  from atlas.audit_log a
  where a.entity_id = j.id::text
    and a.entity_type = 'job'
) e
cross join lateral (
  select jsonb_object_agg(x.id, jsonb_build_array(x.state, x.reference)) as effects from atlas.effects x where x.job_id = j.id
) f
cross join lateral (
  select j.id, array_remove(array[
    case when e.made->>'job_type' <> j.job_type then 'type' end,
    case when e.tenant_id <> j.tenant_id then 'tenant' end,
    case when e.creator is distinct from j.created_by and e.creator is not null then 'creator' end,
    case when e.made->>'input_sha256' <> atlas.content_digest(j.input) then 'input' end,
    case when e.output <> atlas.content_digest(j.output) then 'output' end,
    case when (e.cost <> j.cost_cents::text or (e.cost is null and e.made is not null and j.cost_cents <> 0))
      and not exists (select from atlas.job_attempts t where t.job_id = j.id and t.outcome = 'snoozed') then 'cost' end,
    case when e.steps <> (
      select encode(sha256(convert_to(coalesce(string_agg(
        s.branch || ' ' || s.position || ' ' || s.output::text || E'\n',
        '' order by s.branch collate "C", s.position), ''), 'UTF8')), 'hex')
      from atlas.workflow_steps s
      where s.run_id = j.id and s.output is not null) then 'outputs of steps' end,
    case when j.job_type <> 'ENGINE_RUN' and (
      select count(*) from atlas.job_attempts t where t.job_id = j.id and t.attempt_no < j.attempt_count)
      < j.attempt_count - 1 then 'attempts' end,
    case when (j.finished_at is not null) <> (j.status >= 'succeeded') or (j.dead_lettered_at is not null and j.status <> 'failed') then 'times' end,
    case when e.mailed and j.output->>'provider' <> 'outbox' and not exists (select from atlas.effects m where m.job_id = j.id and m.name like '%.mail' and m.state = 'done')
      and not exists (select from atlas.mail_ledger m where m.job_id = j.id) then 'mail' end,
    case when e.effects is distinct from f.effects and (e.creator is not null or not coalesce(f.effects, '{}') @> coalesce(e.effects, '{}')) then 'effects' end
  ], null) as wrong
) w
where cardinality(w.wrong) > 0
limit 100;
