-- Lets a login call the SQL function enqueue. Called by engine/grants.py. SQL, because a function does it.
select atlas.grant_enqueue(:login);
