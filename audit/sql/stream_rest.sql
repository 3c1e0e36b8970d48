-- The rows of one batch that ends an epoch, in the tree's order; the same columns as of an ordinary one. The rows that
-- audit_rest gives to the sealer, read from the table. SQL, because Prisma has no type for snapshots and transaction ids.
select
  int4send(w.epoch) || xid8send(w.xid) || int8send(w.id) || coalesce(timestamptz_send(w.created_at), '\x8000000000000000')
    || coalesce(uuid_send(w.tenant_id), '\x00000000000000000000000000000000') as head,
  coalesce(w.body, '') as body,
  jsonb_build_object('tenant_id', w.tenant_id, 'actor_type', w.actor_type, 'actor_id', w.actor_id, 'level', w.level,
    'action', w.action, 'entity_type', w.entity_type, 'entity_id', w.entity_id, 'message', w.message, 'meta', w.meta)::text as copies
from (
  select *
  from (
    select * from atlas.audit_log
    where epoch = :epoch and id > :boundary
    union all
    select * from atlas.audit_log
    where epoch = :epoch and id <= :boundary and xid = any (array(select pg_snapshot_xip(:prev::text::pg_snapshot)))
      and not (pg_visible_in_snapshot(xid, :cur::text::pg_snapshot)
               and (:last_xid::text is null or (xid, id) <= (:last_xid::text::xid8, :last_id)))
    union all
    select * from atlas.audit_log
    where epoch = :epoch and id <= :boundary and xid >= pg_snapshot_xmax(:prev::text::pg_snapshot)
      and not (pg_visible_in_snapshot(xid, :cur::text::pg_snapshot)
               and (:last_xid::text is null or (xid, id) <= (:last_xid::text::xid8, :last_id)))
  ) left_over
  where (xid, id) > (:after_xid::text::xid8, :after_id)
    and (xid, id) <= (coalesce(:to_xid::text::xid8, '18446744073709551615'::xid8), coalesce(:to_id, 9223372036854775807))
  order by xid, id limit :limit
) w
order by w.xid, w.id;
