-- The tenants of the installation by slug, for operators; looking across tenants is its purpose.
select id, slug, name, timezone, limits, retention, created_at
from atlas.tenants
where :after::text is null or slug > :after
order by slug
limit :limit::bigint;
