-- How far the write-ahead log of the primary is on its disk, and which cluster it is. What a caller was told is committed is before
-- this position. Called by atlas/db/replica.py. SQL, because Prisma has no type for positions.
select (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint as position, atlas.system_identifier() as cluster;
