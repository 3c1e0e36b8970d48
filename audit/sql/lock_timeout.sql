-- How long this transaction waits for a lock.
select set_config('lock_timeout', :milliseconds, true);
