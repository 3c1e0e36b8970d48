-- The gate, for showing it. SQL, because workers call it, which do not load the generated client.
select value from atlas.system_state where key = 'atlas_online';
