-- What decides whether a job of this type may be made for a tenant: what is published about the type, its definition if it
-- is a command, and the tenant's short name. `near` is null for a type that is known, and holds names like it otherwise.
-- Called by engine/admission.py. SQL, because it is on the way of an enqueue.
select t.slug, y.input_schema, y.audit_content, d.id as definition_id, d.is_active, d.argv, d.env,
  case when y.key is null and d.id is null and :key <> all (atlas.builtin_types()) then atlas.near_types(:key) end as near
from atlas.tenants t
left join atlas.job_types y on y.key = :key
left join atlas.job_definitions d on d.key = :key
where t.id = :tenant_id;
