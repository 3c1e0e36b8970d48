-- The last seal, and the snapshot that ends the next window. The snapshot is this statement's own: what it shows is
-- visible to every later statement of this transaction, so the rows are read after their snapshot, never before. SQL, because
-- Prisma has no type for snapshots and transaction ids.
select
  e.epoch as epoch,
  e.system_identifier as expected_identifier,
  atlas.system_identifier() as system_identifier,
  pg_current_snapshot()::text as snapshot,
  clock_timestamp() as now,
  s.n, s.epoch as seal_epoch, s.snap_prev::text as snap_prev, s.snap_cur::text as snap_cur, s.snap_at, s.closes, s.rest,
  s.to_xid::text as to_xid, s.to_id, s.max_id, s.size, s.frontier, s.sealed_at,
  normal.closes as normal_closes, normal.to_xid::text as normal_to_xid, normal.to_id as normal_to_id,
  (select min(b.epoch) from atlas.audit_epoch b where b.epoch > coalesce(s.epoch, 0)) as next_epoch
from (select * from atlas.audit_epoch order by epoch desc limit 1) e
left join lateral (select * from atlas.audit_seal order by n desc limit 1) s on true
-- the last batch before those that end its epoch
left join lateral (
  select closes, to_xid, to_id from atlas.audit_seal b where b.epoch = s.epoch and not b.rest order by b.n desc limit 1
) normal on s.rest or s.epoch < e.epoch;
