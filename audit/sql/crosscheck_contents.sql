-- The newest jobs whose content differs from their events: type or tenant from JOB_CREATED, the digests of input and output where
-- events have them, attempts that are missing, and a sent mail without its ledger.
-- Every claim counts an attempt and leaves a row, but for the last one of a job that runs or succeeded.
-- A retried job has the output of its last success. Across tenants: the whole installation is compared.
select w.id, w.wrong
from (select id, tenant_id, job_type, input, output, status, attempt_count from atlas.jobs order by id desc limit :limit) j
cross join lateral (
  select
    (array_agg(a.meta order by a.id desc) filter (where a.action = 'JOB_CREATED'))[1] as made,
    (array_agg(a.tenant_id order by a.id desc) filter (where a.action = 'JOB_CREATED'))[1] as tenant_id,
    (array_agg(a.meta->>'output_sha256' order by a.id desc) filter (where a.meta ? 'output_sha256'))[1] as output,
    bool_or(a.action = 'EMAIL_SENT') as mailed
  from atlas.audit_log a
  where a.entity_id = j.id::text
    and a.entity_type = 'job'
) e
cross join lateral (
  select j.id, array_remove(array[
    case when e.made->>'job_type' <> j.job_type then 'type' end,
    case when e.tenant_id <> j.tenant_id then 'tenant' end,
    case when e.made->>'input_sha256' <> atlas.content_digest(j.input) then 'input' end,
    case when e.output <> atlas.content_digest(j.output) then 'output' end,
    case when (select count(*) from atlas.job_attempts t where t.job_id = j.id and t.attempt_no < j.attempt_count)
      < j.attempt_count - 1 then 'attempts' end,
    case when e.mailed and j.output->>'provider' <> 'outbox' and not exists (select from atlas.mail_ledger m where m.job_id = j.id) then 'mail ledger' end
  ], null) as wrong
) w
where cardinality(w.wrong) > 0
limit 100;
