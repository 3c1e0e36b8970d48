-- Workers with a valid lease, connections to this database, dead rows as the statistics estimate them. SQL, because it counts by the database's clock and in its
-- catalogs.
select
  (select count(*)::int from atlas.job_workers where dead_at is null and lease_expires_at > clock_timestamp()) as workers,
  (select count(*)::int from pg_stat_activity where datname = current_database()) as backends,
  (select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_all_tables where schemaname = :schema::text) as dead_rows;
