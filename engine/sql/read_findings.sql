-- What the watchdogs found last.
select value from system_state where key = 'watchdog';
