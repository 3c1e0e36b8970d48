-- Lets a login call the SQL function enqueue. Called by engine/grants.py.
select atlas.grant_enqueue(:login);
