-- The gate, for showing it.
select value from atlas.system_state where key = 'atlas_online';
