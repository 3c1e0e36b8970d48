-- Whether anything can be written, for /readyz: pages.py. It leaves no row behind. A materialized result that is larger than work_mem
-- is written to a temporary file, which fails on a full disk; the message is written to the log and flushed at commit, which fails or
-- waits where commits do. The first column is false on a standby, and where transactions are read-only. SQL, because it asks
-- the server, not the tables.
with spilled as materialized (select repeat('x', 1000) as filler from generate_series(1, 300))
select not pg_is_in_recovery() and not current_setting('transaction_read_only')::boolean as is_writable,
  (select count(filler) from spilled) as written,
  case when not pg_is_in_recovery() then pg_logical_emit_message(true, 'atlas', '') end as logged;
