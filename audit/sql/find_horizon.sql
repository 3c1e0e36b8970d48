-- What has ended by now, in the newest epoch: the end of one window of reading and the start of the next. SQL, because Prisma
-- has no type for snapshots.
select max(epoch) as epoch, pg_current_snapshot()::text as snapshot from atlas.audit_epoch;
