-- Whether a seal's window, or an earlier one, holds the rows of a transaction. SQL, because Prisma has no type for snapshots
-- and transaction ids.
select pg_visible_in_snapshot(:xid::text::xid8, snap_cur) from atlas.audit_seal where n = :n;
