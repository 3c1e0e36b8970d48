-- What decides whether a job of a type may be made for a tenant, for many pairs: see admit.sql. A pair without a row has no tenant.
-- Called by engine/admission.py. SQL, because it is a batch.
select u.key, u.tenant_id, t.slug, y.input_schema, y.audit_content, d.id as definition_id, d.is_active, d.argv, d.env, null::text[] as near
from unnest(:keys::text[], :tenants::uuid[]) u(key, tenant_id)
join atlas.tenants t on t.id = u.tenant_id
left join atlas.job_types y on y.key = u.key
left join atlas.job_definitions d on d.key = u.key;
