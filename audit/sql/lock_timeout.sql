-- How long this transaction waits for a lock. SQL, because it changes a setting of the transaction.
select set_config('lock_timeout', :milliseconds, true);
