-- The gate, for showing it.
select value from system_state where key = 'atlas_online';
