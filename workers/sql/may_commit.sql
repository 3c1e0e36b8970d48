-- Whether the login of an application may call commit_attempt; no row where the schema has no such function. Called by
-- workers/application_pool.py. SQL, because it reads the catalogs: a login without rights to the schema may not name its functions.
select session_user::text as login, has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute') as may_commit
from pg_namespace n
join pg_proc p on p.pronamespace = n.oid and p.proname = 'commit_attempt'
where n.nspname = :schema;
