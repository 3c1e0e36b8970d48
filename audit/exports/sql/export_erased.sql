-- True if personal values were erased since a snapshot: an export that began then has the values or not, and lacks the event.
-- SQL, because Prisma has no type for snapshots and transaction ids.
select exists (
  select from atlas.audit_log
  where entity_id = 'subject' and entity_type = 'audit_private' and action = 'ERASED' and epoch = :epoch
    and not pg_visible_in_snapshot(xid, :snapshot::text::pg_snapshot));
