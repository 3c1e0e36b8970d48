-- Workers with a valid lease, connections to this database, dead rows as the statistics estimate them, the last verification of the audit log
-- and the copies of its checkpoints. SQL, because it counts by the database's clock and in its
-- catalogs.
select
  (select count(*)::int from atlas.job_workers where dead_at is null and lease_expires_at > clock_timestamp()) as workers,
  (select count(*)::int from pg_stat_activity where datname = current_database()) as backends,
  (select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_all_tables where schemaname = :schema::text) as dead_rows,
  (select (value->>'status' = 'whole')::int from atlas.system_state where key = 'audit_verification' and value ? 'status') as audit_whole,
  (select extract(epoch from clock_timestamp() - (value->>'verified_at')::timestamptz)::float8
   from atlas.system_state where key = 'audit_verification') as audit_verified_age,
  (select jsonb_object_agg(c.key, extract(epoch from clock_timestamp() - (c.value->>'at')::timestamptz))
   from atlas.system_state s, jsonb_each(s.value) c where s.key = 'checkpoint_copies' and c.value ? 'at')::text as copy_ages;
