-- Delete expired responses, some at a time; across tenants, since the installation cleans up for all. SQL, because the age is
-- counted on the database's clock.
delete from atlas.idempotency_keys
where (tenant_id, subject, key) in (
  select tenant_id, subject, key
  from atlas.idempotency_keys
  where created_at < clock_timestamp() - :hours::int * interval '1 hour'
  order by created_at
  limit :most)
returning true;
