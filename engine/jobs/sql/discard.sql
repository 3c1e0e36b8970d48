-- dead letter -> failed, with JOB_DISCARDED: it stays as it ended, and is removed when it is past its age, which a dead letter
-- never is. Without a tenant it looks across all (operators). SQL, because it locks, changes and records in one statement.
with target as materialized (
  select id, atlas.shown_status(j) as shown_status
  from atlas.jobs j
  where id = any (:ids::uuid[])
    and (:tenant_id::uuid is null or tenant_id = :tenant_id)
    and tenant_id <> all (atlas.moving_tenants())
  order by id
  for update
),
discarded as (
  update atlas.jobs j
  set dead_lettered_at = null,
      updated_at = clock_timestamp()
  from target t
  where j.id = t.id
    and j.status = 'failed'
    and j.dead_lettered_at is not null
  returning j.id, j.tenant_id, :meta::text::jsonb || jsonb_build_object('job_type', j.job_type) as meta
),
written as (
  insert into atlas.audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, meta, body)
  select d.tenant_id, :actor_type::text::atlas.actor_type, :actor_id, 'warn', 'JOB_DISCARDED', 'job', d.id, d.meta,
    atlas.audit_body(d.tenant_id, :actor_type::text, :actor_id, 'warn', 'JOB_DISCARDED', 'job', d.id::text, '', d.meta)
  from discarded d
)
select t.id, case when d.id is null then t.shown_status else 'discarded' end as verdict
from target t
left join discarded d on d.id = t.id;
