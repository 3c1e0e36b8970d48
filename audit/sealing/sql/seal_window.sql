-- The rows of a window after a given row, in the tree's order, each as its head and the SHA-256 of its bytes; one string
-- for all, since thousands of small values would cost more to send than to hash. SQL, because a function gives the rows, and
-- they are hashed here.
select string_agg(
  int4send(w.epoch) || xid8send(w.xid) || int8send(w.id) || timestamptz_send(w.created_at)
    || coalesce(uuid_send(w.tenant_id), '\x00000000000000000000000000000000') || sha256(w.body),
  ''::bytea order by w.xid, w.id) as heads
from atlas.audit_window(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, :after_xid::text::xid8, :after_id,
  null, null, null, :limit) w;
