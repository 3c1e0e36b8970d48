-- The personal values of some entities, and of no entity, behind commitments. Across tenants: a commitment is known only to
-- who may read its event. SQL, because it is a batch, along two indexes.
select encode(commitment, 'hex') as commitment, field, encode(salt, 'hex') as salt, value
from atlas.audit_private
where entity_id = any (:entity_ids::text[]) and commitment = any (:commitments::bytea[])
union all
select encode(commitment, 'hex'), field, encode(salt, 'hex'), value
from atlas.audit_private
where entity_id is null and commitment = any (:commitments);
