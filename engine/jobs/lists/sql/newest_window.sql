-- The :most-th newest job of all tenants before an id, and when it was created; no row if there are fewer. Reads that many by the key. Looks across tenants: it bounds what a
-- tenant's statements read while a transaction holds the xmin horizon. SQL, because Prisma would read all of them.
select id, created_at from only atlas.jobs where id < :before::uuid order by id desc offset :most::int - 1 limit 1;
