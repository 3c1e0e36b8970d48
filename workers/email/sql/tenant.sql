-- How the mails of one tenant go out.
select slug, limits->'email' as email
from tenants
where id = :tenant_id;
