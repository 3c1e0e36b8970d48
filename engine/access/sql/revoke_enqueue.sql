-- Takes the right to call the SQL function enqueue from a login without a grant. Called by engine/access/grants.py. SQL, because a function does it.
select atlas.revoke_enqueue(:login);
