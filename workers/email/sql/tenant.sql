-- How the mails of one tenant go out. SQL, because a worker calls it, which does not load the generated client.
select slug, limits->'email' as email
from atlas.tenants
where id = :tenant_id;
