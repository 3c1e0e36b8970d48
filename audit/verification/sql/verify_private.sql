-- Personal values that differ from their commitment, and those that no event of their entity and tenant commits to under their
-- name: someone added, moved or renamed them, and an export, a removal by order or an erasure would not find them. The search
-- columns are compared with the bytes elsewhere. Values without an entity are compared with their own commitment alone. And
-- values that are there although an event says that they were erased, and none that the tenant came back with them. Across tenants: the audit log is verified as a whole.
-- SQL, because values are hashed and compared in the database.
(select field, encode(commitment, 'hex') as commitment, false as erased
 from atlas.audit_private
 where sha256(salt || convert_to(value, 'UTF8')) is distinct from commitment
 limit 100)
union
(select p.field, encode(p.commitment, 'hex'), false
 from atlas.audit_private p
 where p.entity_id is not null
   and not exists (
     select from atlas.audit_log a
     where a.entity_id = p.entity_id
       and a.tenant_id is not distinct from p.tenant_id
       and position(convert_to(encode(p.commitment, 'hex'), 'UTF8') in a.body) > 0
       and exists (
         select from jsonb_path_query(a.meta, '$.**') o, jsonb_build_object('commitment', encode(p.commitment, 'hex')) shape,
           coalesce(p.field, '') named
         where o @> jsonb_build_object(named, shape) or o @> jsonb_build_object(named, jsonb_build_array(shape))))
 limit 100)
union
(select p.field, encode(p.commitment, 'hex'), true
 from atlas.audit_log a
 cross join jsonb_path_query(a.meta, '$.commitments[*]') erased
 join atlas.audit_private p on p.commitment = case when erased #>> '{}' ~ '^[0-9a-f]{64}$' then decode(erased #>> '{}', 'hex') end
 where a.entity_id = 'subject' and a.entity_type = 'audit_private' and a.action = 'ERASED'
   and not exists (
     select from atlas.audit_log i
     where i.entity_id = coalesce(p.entity_id, p.tenant_id::text)
       and i.tenant_id = p.tenant_id
       and i.action = 'PERSONAL_DATA_IMPORTED'
       and (i.epoch, i.id) > (a.epoch, a.id)
       and position(convert_to(encode(p.commitment, 'hex'), 'UTF8') in i.body) > 0)
 limit 100);
