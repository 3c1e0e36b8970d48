-- How the mails of one tenant go out.
select slug, limits->'email' as email
from atlas.tenants
where id = :tenant_id;
