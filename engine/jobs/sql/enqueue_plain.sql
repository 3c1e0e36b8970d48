-- nothing -> queued, for one job without options: what most calls enqueue, with the fewest values. No row means that there is no
-- such tenant.
with made as (
  insert into atlas.jobs (id, tenant_id, job_type, input, max_retries, created_by)
  select :id, o.id, :job_type, :input,
    coalesce(:max_retries::int, (select y.max_retries from atlas.job_types y where y.key = :job_type), 3), :actor_id
  from atlas.tenants o where o.id = :tenant_id
  returning id
)
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
select :tenant_id, :actor_type::text::atlas.actor_type, :actor_id, 'JOB_CREATED', 'job', m.id, :meta, :body
from made m
-- the wake-up is sent with the commit
returning entity_id, pg_notify('atlas_jobs', '');
