-- Personal values that are not what was committed to, and those that no event of their thing commits to: they were put
-- there, or moved, by someone else, and neither an export nor a removal by order would find them. Values of no thing are
-- compared with their own commitment alone. Across tenants: the account is verified as a whole.
(select field, encode(commitment, 'hex') as commitment
 from audit_private
 where sha256(salt || convert_to(value, 'UTF8')) <> commitment
 limit 100)
union
(select p.field, encode(p.commitment, 'hex')
 from audit_private p
 where p.entity_id is not null
   and not exists (
     select from audit_log a
     where a.entity_id = p.entity_id
       and position(convert_to(encode(p.commitment, 'hex'), 'UTF8') in a.body) > 0)
 limit 100);
