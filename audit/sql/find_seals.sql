-- The seals that these rows are in; rows of no seal are left out. A row is in the first seal of its epoch whose window shows its
-- transaction and reaches up to it; what was left of an epoch is in the seals marked `rest`. A row is sealed soon after it was
-- written, so the search begins there by the index (sealed_at), some seconds earlier: clocks may differ after a failover.
-- Across tenants: seals belong to the installation. Called by audit/find.py. SQL, because Prisma has no type for snapshots.
select r.id, s.n
from unnest(:ids::bigint[], :epochs::int[], :xids::text[], :times::timestamptz[]) r(id, epoch, xid, created_at)
cross join lateral (
  select s.n
  from atlas.audit_seal s
  where s.epoch = r.epoch
    and s.sealed_at >= r.created_at - interval '10 seconds'
    and (s.rest or (r.id <= s.max_id and pg_visible_in_snapshot(r.xid::xid8, s.snap_cur)))
    and (s.closes or (s.to_xid, s.to_id) >= (r.xid::xid8, r.id))
  order by s.sealed_at, s.n
  limit 1
) s;
