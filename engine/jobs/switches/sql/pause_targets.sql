-- What a name means as the target of a pause, and whose it is: a key; or a slug, a name, a label or an id. With a tenant, its own.
-- Called by engine/jobs/switches/pauses.py. SQL, because it is one question to six tables.
select id::text as target, id as tenant_id
from atlas.tenants
where :kind::text = 'tenant' and (slug = :name or id::text = :name) and (:tenant_id::uuid is null or id = :tenant_id)
union all
select :name, null
where :kind = 'type'
  and (:name = any (atlas.builtin_types()) or exists (select from atlas.job_types where key = :name)
    or exists (select from atlas.job_definitions where key = :name))
union all
select key, null
from atlas.job_definitions
where :kind = 'definition' and key = :name
union all
select :name, :tenant_id
where :kind = 'workflow'
  and exists (
    select from atlas.workflows
    where key = :name and (tenant_id is null or :tenant_id is null or tenant_id = :tenant_id))
union all
select id::text, tenant_id
from atlas.hosts
where :kind = 'host' and (name = :name or id::text = :name) and (:tenant_id is null or tenant_id = :tenant_id)
union all
select id::text, tenant_id
from atlas.job_triggers
where :kind = 'trigger' and (label = :name or id::text = :name) and (:tenant_id is null or tenant_id = :tenant_id)
  and deleted_at is null
limit 3;
