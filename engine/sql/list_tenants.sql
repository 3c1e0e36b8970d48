-- Every tenant of the installation, for operators; looking across tenants is its purpose.
select id, slug, name, timezone, limits, retention, created_at
from atlas.tenants
order by slug;
