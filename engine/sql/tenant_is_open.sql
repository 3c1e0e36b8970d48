-- Whether something can be added to a tenant: it exists and is not being removed. Called by engine/recurring.py.
select exists (
  select from atlas.tenants
  where id = :tenant_id
    and removing_at is null);
