-- The sealing transaction's own id, and when the epoch of its batch began. Only a batch that will be stored asks: an id is used up.
-- SQL, because Prisma has no type for transaction ids.
select pg_current_xact_id()::text as xid, (select started_at from atlas.audit_epoch where epoch = :epoch) as epoch_at;
