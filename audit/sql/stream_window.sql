-- The rows of one batch in the tree's order: head, bytes, and the search columns as one object to compare with them.
-- The same rows as audit_window gives to the sealer, but read from the table: those who can change rows can change a
-- stored function as well. A time or bytes that someone set to null are read as ones that no row is written with. SQL, because
-- Prisma has no type for snapshots and transaction ids.
select
  int4send(w.epoch) || xid8send(w.xid) || int8send(w.id) || coalesce(timestamptz_send(w.created_at), '\x8000000000000000')
    || coalesce(uuid_send(w.tenant_id), '\x00000000000000000000000000000000') as head,
  coalesce(w.body, '') as body,
  jsonb_build_object('tenant_id', w.tenant_id, 'actor_type', w.actor_type, 'actor_id', w.actor_id, 'level', w.level,
    'action', w.action, 'entity_type', w.entity_type, 'entity_id', w.entity_id, 'message', w.message, 'meta', w.meta)::text as copies
from (
  (select a.*
   from pg_snapshot_xip(:prev::text::pg_snapshot) x
   cross join lateral (
     select * from atlas.audit_log
     where epoch = :epoch and xid = x and (xid, id) > (:after_xid::text::xid8, :after_id)
       and (xid, id) <= (coalesce(:to_xid::text::xid8, '18446744073709551615'::xid8), coalesce(:to_id, 9223372036854775807))
       and id <= coalesce(:max_id, 9223372036854775807)
     order by xid, id limit :limit) a
   where x >= :after_xid::text::xid8 and pg_visible_in_snapshot(x, :cur::text::pg_snapshot))
  union all
  (select * from atlas.audit_log
   where epoch = :epoch and xid >= pg_snapshot_xmax(:prev::text::pg_snapshot)
     and xid < pg_snapshot_xmax(:cur::text::pg_snapshot) and (xid, id) > (:after_xid::text::xid8, :after_id)
     and (xid, id) <= (coalesce(:to_xid::text::xid8, '18446744073709551615'::xid8), coalesce(:to_id, 9223372036854775807))
     and id <= coalesce(:max_id, 9223372036854775807)
     and pg_visible_in_snapshot(xid, :cur::text::pg_snapshot)
   order by xid, id limit :limit)
  order by xid, id limit :limit
) w
order by w.xid, w.id;
