-- What is left of an epoch that has ended, after a given row; the same columns as an ordinary window gives. SQL, because a
-- function gives the rows, and they are hashed here.
select string_agg(
  int4send(w.epoch) || xid8send(w.xid) || int8send(w.id) || timestamptz_send(w.created_at)
    || coalesce(uuid_send(w.tenant_id), '\x00000000000000000000000000000000') || sha256(w.body),
  ''::bytea order by w.xid, w.id) as heads
from atlas.audit_rest(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, :last_xid::text::xid8, :last_id, :boundary,
  :after_xid::text::xid8, :after_id, null, null, :limit) w;
