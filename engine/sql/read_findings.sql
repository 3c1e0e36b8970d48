-- The alerts that were stored last.
select value from atlas.system_state where key = 'watchdog';
