-- How far a standby has applied the write-ahead log of its primary, and of which cluster and timeline it is. A null: the server is no
-- standby. Called by atlas/db/replica.py. SQL, because Prisma has no type for positions.
select
  case when pg_is_in_recovery() then (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint end as position,
  atlas.system_identifier() as cluster,
  (select value::int from atlas.system_state where key = 'timeline') as timeline;
