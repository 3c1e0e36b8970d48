-- What the watchdogs found last.
select value from atlas.system_state where key = 'watchdog';
