-- any state but running -> gone, with JOB_DELETED. Without a tenant it looks across all (operators). SQL, because it locks,
-- deletes and records in one statement.
with target as materialized (
  -- the rows as they are, held until the end of the transaction
  select id
  from atlas.jobs
  where id = any (:ids::uuid[])
    and (:tenant_id::uuid is null or tenant_id = :tenant_id)
    and tenant_id <> all (atlas.moving_tenants())
  order by id
  for update
),
deleted as (
  delete from atlas.jobs j
  using target t
  where j.id = t.id
    and j.status <> 'running'
  returning j.id, j.tenant_id, j.job_type, j.status, j.dead_lettered_at is not null as dead_lettered
),
event as (
  select d.tenant_id, d.id::text as entity_id,
    :meta::text::jsonb
    || jsonb_build_object('job_type', d.job_type, 'status', d.status, 'dead_lettered', d.dead_lettered) as meta
  from deleted d
),
written as (
  insert into atlas.audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, meta, body)
  select e.tenant_id, :actor_type::text::atlas.actor_type, :actor_id, 'warn', 'JOB_DELETED', 'job', e.entity_id, e.meta,
    atlas.audit_body(e.tenant_id, :actor_type::text, :actor_id, 'warn', 'JOB_DELETED', 'job', e.entity_id, '', e.meta)
  from event e
)
select t.id, case when d.id is null then 'running' else 'deleted' end as verdict
from target t
left join deleted d on d.id = t.id;
