-- Of commitments, each with the entity of its event, those whose personal value is not there. Across tenants: the audit log is
-- verified as a whole. SQL, because it is a batch.
select c.nth
from unnest(:commitments::bytea[], :entity_ids::text[]) with ordinality c(commitment, entity_id, nth)
where not exists (select from atlas.audit_private p where p.entity_id = c.entity_id and p.commitment = c.commitment)
  and not exists (select from atlas.audit_private p where p.entity_id is null and p.commitment = c.commitment);
