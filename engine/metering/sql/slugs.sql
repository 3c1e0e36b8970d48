-- The slugs of these tenants. Called by engine/metering/insights.py. SQL, because Prisma would read their whole rows.
select id, slug from atlas.tenants where id = any (:ids::uuid[]);
