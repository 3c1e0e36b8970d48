-- Whether a login may call the SQL function enqueue; an error if there is no such login. Called by engine/access/grants.py. SQL, because it reads the catalogs.
select coalesce(pg_has_role(:login::text::regrole, to_regrole(:role), 'member'), false);
