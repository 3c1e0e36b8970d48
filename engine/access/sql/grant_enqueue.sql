-- Lets a login call the SQL function enqueue. Called by engine/access/grants.py. SQL, because a function does it.
select atlas.grant_enqueue(:login);
