-- The server's own words about what Atlas relies on. SQL, because it reads the server's settings.
select
  current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes,
  current_setting('synchronous_commit') as synchronous_commit,
  current_setting('default_transaction_isolation') as default_transaction_isolation,
  current_setting('default_transaction_read_only') as default_transaction_read_only,
  pg_is_in_recovery() as is_standby,
  (select setting::bigint from pg_settings where name = 'max_wal_size') as max_wal_megabytes,
  current_setting('max_connections')::int as connections_allowed,
  (select count(*) from pg_stat_activity where datid is not null and usesysid is not null) as connections_used,
  current_user as login;
