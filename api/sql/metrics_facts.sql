-- What else there is to count: workers whose lease stands, the oldest due job, connections to this database.
select
  (select count(*)::int from job_workers where dead_at is null and lease_expires_at > clock_timestamp()) as workers,
  (select extract(epoch from clock_timestamp() - min(created_at))::float8
   from (select created_at from jobs where status = 'queued' and next_retry_at is null limit 10000) due) as oldest,
  (select count(*)::int from pg_stat_activity where datname = current_database()) as backends;
