-- One tenant, by what people call it or by its id.
select id, slug, name, timezone, limits, retention, created_at
from atlas.tenants
where slug = :slug
   or id = :id;
