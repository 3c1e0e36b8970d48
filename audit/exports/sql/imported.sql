-- The event of a tenant's last import: it has the digests and keys of the parts that were brought along. Called by audit/exports/moved.py. SQL,
-- because it reads a JSON column of the log.
select (meta->'audit')::text as parts
from atlas.audit_log
where entity_id = :tenant_id::uuid::text
  and tenant_id = :tenant_id
  and action = 'TENANT_IMPORTED'
order by epoch desc, id desc
limit 1;
