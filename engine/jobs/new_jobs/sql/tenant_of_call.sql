-- The tenant that a call names by its slug or id, and the login that calls. Called by engine/jobs/new_jobs/enqueue_call.py. SQL, because
-- applications call it over any driver.
select t.id, session_user::text as login
from atlas.tenants t
where t.slug = :tenant::text
   or t.id::text = :tenant::text;
