-- nothing, or an expired response -> taken, by this call alone. Returns no row where another call has the key; while that
-- call runs, this waits for its end. Nor where the tenant is being removed. SQL, because it inserts or updates under a
-- condition, on the database's clock.
insert into atlas.idempotency_keys as k (tenant_id, subject, key, request_hash)
select t.id, :subject, :key, :request_hash
from atlas.tenants t
where t.id = :tenant_id and t.removing_at is null and t.moving_at is null
on conflict (tenant_id, subject, key) do update
  set request_hash = excluded.request_hash, status = null, body = null, created_at = clock_timestamp()
  where k.created_at < clock_timestamp() - :hours::int * interval '1 hour'
returning true;
