-- Of commitments whose value is gone, with the position of their row, those that no ERASED event lists and whose row is still
-- there: a removal by order takes the values of its rows with it. Across tenants: the audit log is verified as a whole. SQL,
-- because it is a batch, compared with the elements of JSON columns.
with
erased as materialized (
  select one #>> '{}' as commitment
  from atlas.audit_log a
  cross join jsonb_path_query(a.meta, '$.commitments[*]') one
  where a.entity_id = 'subject' and a.entity_type = 'audit_private' and a.action = 'ERASED'
)
select m.id, m.commitment
from unnest(:commitments::text[], :epochs::int[], :xids::text[], :ids::bigint[]) m(commitment, epoch, xid, id)
where not exists (select from erased e where e.commitment = m.commitment)
  and exists (select from atlas.audit_log a where a.epoch = m.epoch and a.xid = m.xid::xid8 and a.id = m.id)
order by m.id;
