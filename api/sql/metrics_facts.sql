-- Workers with a valid lease, and connections to this database. SQL, because it counts by the database's clock and in its
-- catalogs.
select
  (select count(*)::int from atlas.job_workers where dead_at is null and lease_expires_at > clock_timestamp()) as workers,
  (select count(*)::int from pg_stat_activity where datname = current_database()) as backends;
