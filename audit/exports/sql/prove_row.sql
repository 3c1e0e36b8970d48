-- A row by its id, as the tree knows it. Across tenants: the caller has checked whose row it is. SQL, because the tree knows a
-- row by the bytes of its columns.
select
  int4send(epoch) || xid8send(xid) || int8send(id) || timestamptz_send(created_at)
    || coalesce(uuid_send(tenant_id), '\x00000000000000000000000000000000') as head,
  tenant_id,
  body
from atlas.audit_log
where id = :id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
order by epoch, xid
limit 1;
