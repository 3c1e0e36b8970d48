-- The id and slug of each tenant that is named by either. Called by cli/access/tenant_names.py.
-- SQL, because a command that only needs a slug has ended before the typed client is imported.
select id, slug
from atlas.tenants
where id = any (:ids::uuid[])
  or slug = any (:slugs::text[]);
