-- The newest version of every workflow a tenant may start; without a tenant, of all there are (operators).
select distinct on (w.key, w.tenant_id) w.id, w.tenant_id, w.key, w.version, w.kind::text, w.description, w.input_schema, w.document,
  w.is_enabled, w.created_by, w.created_at, w.last_seen_at
from workflows w
where :tenant_id::uuid is null
   or w.tenant_id is null
   or w.tenant_id = :tenant_id
order by w.key, w.tenant_id, w.version desc;
