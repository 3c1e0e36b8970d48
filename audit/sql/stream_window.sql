-- The rows of one batch in the tree's order: head, bytes, and the search columns as one object to compare with them.
select
  int4send(w.epoch) || xid8send(w.xid) || int8send(w.id) || timestamptz_send(w.created_at)
    || coalesce(uuid_send(w.tenant_id), '\x00000000000000000000000000000000') as head,
  w.body,
  jsonb_build_object('tenant_id', w.tenant_id, 'actor_type', w.actor_type, 'actor_id', w.actor_id, 'level', w.level,
    'action', w.action, 'entity_type', w.entity_type, 'entity_id', w.entity_id, 'message', w.message, 'meta', w.meta)::text as copies
from atlas_audit_window(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, :after_xid::text::xid8, :after_id,
  :to_xid::text::xid8, :to_id, :max_id, :limit) w
order by w.xid, w.id;
